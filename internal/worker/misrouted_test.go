package worker

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/route"
	"github.com/coppice-run/coppice/internal/wire"
)

// TestAReplicaThatCanNotBeReachedIsLost: a stream that was to go to it goes elsewhere, and later
// hints from it end no other. One whose connection is being made is not lost.
func TestAReplicaThatCanNotBeReachedIsLost(t *testing.T) {
	t.Parallel()
	there, dead, coming := listen(t), listen(t), listen(t)
	server := grpc.NewServer()
	pb.RegisterWorkerServiceServer(server, welcoming{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(there) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	w := &Worker{Config: Config{Client: connected(t, there, dead, coming), Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, replicas: newReplicaEndpoints()}
	l := w.newConn()
	l.replicas.record("dead", dead.Addr().String())
	l.replicas.record("coming", coming.Addr().String())
	turned := func(replica string) (found bool) {
		l.preferReplica(replica)
		k := l.open(t.Context(), false)
		for k == nil {
			k = l.open(t.Context(), false)
		}
		defer k.cancel()
		if got := k.welcome.GetReplicaId(); got != "there" {
			t.Errorf("the stream has gone to %q", got)
		}
		return l.replicas.endpoint(replica) != ""
	}
	if !turned("coming") {
		t.Error("a replica to which a connection is being made was lost")
	}
	for begun := time.Now(); turned("dead"); { // until connecting has failed
		if time.Since(begun) > time.Minute {
			t.Fatal("each hint from a dead replica ends a stream, for ever")
		}
	}
	if l.replicas.endpoint("there") == "" {
		t.Error("the replica that can be reached was lost too")
	}
}

// welcoming is a replica that welcomes workers.
type welcoming struct {
	pb.UnimplementedWorkerServiceServer
}

func (welcoming) Work(stream pb.WorkerService_WorkServer) error {
	if err := stream.Send(&pb.WorkResponse{Kind: &pb.WorkResponse_Welcome{Welcome: &pb.Welcome{
		ReplicaId: "there", Window: window, Protocol: wire.Protocol, OldestProtocol: wire.Protocol,
	}}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// listen listens at an address of its own until the end of the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // it may be closed
	return l
}

// connected is a connection to replicas as workers have it.
func connected(t *testing.T, at ...net.Listener) pb.WorkerServiceClient {
	t.Helper()
	list := manual.NewBuilderWithScheme("list")
	var state resolver.State
	for _, l := range at {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: l.Addr().String()}}})
	}
	list.InitialState(state)
	conn, err := grpc.NewClient("list:///", grpc.WithResolvers(list), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+route.Policy+`":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return pb.NewWorkerServiceClient(conn)
}
