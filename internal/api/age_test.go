package api_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/test/bufconn"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/api"
	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
	"github.com/coppice-run/coppice/internal/worker"
	"github.com/coppice-run/coppice/internal/workspace"
)

// inTheEnd is the time after which a replica that was added later has its share, however chance has
// it: about six moves of each idle slot's stream.
const inTheEnd = 5 * time.Minute

// TestALaterReplicaGetsItsShare: connections end after a while, and clients then resolve the
// addresses of replicas again. Calls and the streams of idle slots go to a new replica too. Runs
// and watches stay on their streams.
func TestALaterReplicaGetsItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNames(t)
		one := n.serve("one")
		conn := n.connect()
		watch, err := pb.NewSessionServiceClient(conn).WatchSession(t.Context(), &pb.WatchSessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		answers := n.work(conn, 8)
		synctest.Wait()
		for one.runs() == 0 {
			time.Sleep(time.Second)
		}

		two := n.serve("two")
		shared := func() bool { return one.now()["Work"] >= 2 && two.now()["Work"] >= 2 }
		for began := time.Now(); !shared() && time.Since(began) < inTheEnd; synctest.Wait() {
			time.Sleep(time.Second)
		}
		for range 4 {
			if _, err := pb.NewSessionServiceClient(conn).GetSession(t.Context(), &pb.GetSessionRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range []*replica{one, two} {
			if now := r.now(); now["Work"] < 2 || now["GetSession"] != 2 {
				t.Errorf("replica %s has had calls, and has streams: %v", r.name, now)
			}
		}
		if now := one.now(); now["WatchSession"] != 1 || now["Claim"] != 1 || now["Reattach"] != 0 || now["End"] != 0 {
			t.Errorf("what was under way at replica one: %v", now)
		}
		close(answers)
		synctest.Wait()
		if now := one.now(); now["End"] != 1 {
			t.Errorf("what has come of what was under way at replica one: %v", now)
		}
		one.watched <- &pb.WatchSessionResponse{}
		if _, err := watch.Recv(); err != nil {
			t.Errorf("the watch has ended: %v", err)
		}
	})
}

// names is the addresses that a name resolves to.
type names struct {
	t        *testing.T
	resolver *manual.Resolver

	mu    sync.Mutex
	at    map[string]*bufconn.Listener
	state resolver.State
}

func newNames(t *testing.T) *names {
	n := &names{t: t, resolver: manual.NewBuilderWithScheme("names"), at: map[string]*bufconn.Listener{}}
	n.resolver.ResolveNowCallback = func(resolver.ResolveNowOptions) {
		n.mu.Lock()
		state := n.state
		n.mu.Unlock()
		go n.resolver.UpdateState(state) // as in real ones, not before this returns
	}
	return n
}

// serve starts a replica, which later resolutions of the name include.
func (n *names) serve(name string) *replica {
	l, r := bufconn.Listen(1<<20), &replica{name: name, count: map[string]int{}, watched: make(chan *pb.WatchSessionResponse)}
	server := grpc.NewServer(api.Keepalive()...)
	pb.RegisterWorkerServiceServer(server, r)
	pb.RegisterSessionServiceServer(server, r)
	n.mu.Lock()
	n.at[name] = l
	n.state.Endpoints = append(n.state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: name}}})
	if len(n.at) == 1 {
		n.resolver.InitialState(n.state)
	}
	n.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	n.t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
	})
	return r
}

func (n *names) connect() *grpc.ClientConn {
	conn, err := assembly.Connect("names:///", grpc.WithResolvers(n.resolver), grpc.WithContextDialer(
		func(ctx context.Context, name string) (net.Conn, error) {
			n.mu.Lock()
			l := n.at[name]
			n.mu.Unlock()
			return l.DialContext(ctx)
		}))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			n.t.Error(err)
		}
	})
	return conn
}

// work runs a worker, which gets one run. Its model answers once answers is closed.
func (n *names) work(conn *grpc.ClientConn, slots int) (answers chan struct{}) {
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		n.t.Fatal(err)
	}
	places, err := workspace.New(workspace.Config{Dir: n.t.TempDir()})
	if err != nil {
		n.t.Fatal(err)
	}
	bus := func(string) (*dispatch.Bus, error) {
		return dispatch.New(dispatch.Config{Client: redis.Client(), Installation: "i"})
	}
	orchestrator, err := bus("")
	if err != nil {
		n.t.Fatal(err)
	}
	if err := orchestrator.Announce(n.t.Context(), "default", []dispatch.Hint{hint}); err != nil {
		n.t.Fatal(err)
	}
	answers = make(chan struct{})
	w, err := worker.New(worker.Config{
		ID: "w", Pool: "default", Slots: slots, Client: pb.NewWorkerServiceClient(conn), Bus: bus, Model: waiting(answers), Tools: tool.Builtin(), Places: places,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(n.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	n.t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, redis.Close()); err != nil {
			n.t.Error(err)
		}
	})
	return answers
}

// waiting is a model that answers once it is closed.
type waiting chan struct{}

func (w waiting) Generate(ctx context.Context, _ *model.Request, _ func(model.Delta)) (*model.Answer, error) {
	select {
	case <-w:
		return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "ok"}}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var hint = dispatch.Hint{Session: tree.SessionID{15: 1}, Task: tree.TaskID{15: 2}, Epoch: 1}

// replica is an orchestrator that counts its calls and knows its streams.
type replica struct {
	pb.UnimplementedWorkerServiceServer
	pb.UnimplementedSessionServiceServer
	name    string
	watched chan *pb.WatchSessionResponse

	mu    sync.Mutex
	count map[string]int
}

func (r *replica) add(what string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[what] += n
}

func (r *replica) now() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.count)
}

func (r *replica) runs() int { return r.now()["Claim"] }

func (r *replica) GetSession(context.Context, *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	r.add("GetSession", 1)
	return &pb.GetSessionResponse{}, nil
}

func (r *replica) WatchSession(_ *pb.WatchSessionRequest, stream grpc.ServerStreamingServer[pb.WatchSessionResponse]) error {
	r.add("WatchSession", 1)
	defer r.add("WatchSession", -1)
	for {
		select {
		case resp := <-r.watched:
			if err := stream.Send(resp); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (r *replica) Work(stream grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]) error {
	r.add("Work", 1)
	defer r.add("Work", -1)
	answers := []*pb.WorkResponse{{Kind: &pb.WorkResponse_Welcome{Welcome: &pb.Welcome{
		InstallationId: "i", ReplicaId: r.name, Window: 1024, Protocol: wire.Protocol, OldestProtocol: 1,
	}}}}
	for {
		for _, answer := range answers {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answers = nil
		switch req.GetKind().(type) {
		case *pb.WorkRequest_Claim:
			r.add("Claim", 1)
			answers = assignment()
		case *pb.WorkRequest_Reattach:
			r.add("Reattach", 1)
		case *pb.WorkRequest_End:
			r.add("End", 1)
			answers = []*pb.WorkResponse{{Kind: &pb.WorkResponse_Ended{Ended: &pb.Ended{}}}}
		}
	}
}

// assignment is the first run of a sub-agent.
func assignment() []*pb.WorkResponse {
	explore, _ := agentdef.Builtin().Get("explore")
	asked := tree.Message{ID: tree.MessageID{15: 3}, Ordinal: 1, Run: 1, Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "leaf"}}}
	return []*pb.WorkResponse{
		{Kind: &pb.WorkResponse_Assignment{Assignment: &pb.Assignment{
			Task: &pb.Task{
				SessionId: hint.Session.String(), Id: hint.Task.String(), Epoch: hint.Epoch, Run: 1, Depth: 1,
				Agent: explore.Name, ModelProvider: "p", ModelName: "m",
			},
			AgentDefinition: explore.Marshal(), MaxIterations: 50, MaxPartBytes: 1 << 20,
		}}},
		{Kind: &pb.WorkResponse_Transcript{Transcript: &pb.TranscriptChunk{Messages: []*pb.Message{wire.Message(&asked)}, Last: true}}},
	}
}
