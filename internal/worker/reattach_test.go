package worker

import (
	"testing"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// TestAWorkerIsHeardWhileItReattaches: where a database is slow that may take longer than a replica
// waits for a worker that says nothing.
func TestAWorkerIsHeardWhileItReattaches(t *testing.T) {
	t.Parallel()
	l, j := lineOf(&sentOver{}, nil)
	l.detach(l.stream)
	slow := &slowReplica{asked: make(chan struct{}), beats: make(chan struct{}), answers: make(chan *pb.WorkResponse)}
	next := &workStream{rpc: slow, protocol: wire.Protocol, welcome: &pb.Welcome{Features: []string{wire.FeatureReattach}}}
	adopted := make(chan error, 1)
	go func() { adopted <- l.attach(next) }()
	<-slow.asked
	go l.sendHeartbeat(next)
	select {
	case <-slow.beats:
	case <-time.After(time.Minute):
		t.Fatal("nothing is heard of the worker until its reattachment has its answer")
	}
	slow.answers <- &pb.WorkResponse{Kind: &pb.WorkResponse_Reattached{Reattached: &pb.Reattached{}}}
	if err := <-adopted; err != nil || !l.isCurrent(j) {
		t.Errorf("the attempt goes on: %t, %v", l.isCurrent(j), err)
	}
}

// slowReplica answers when the test has it answer.
type slowReplica struct {
	pb.WorkerService_WorkClient
	asked, beats chan struct{}
	answers      chan *pb.WorkResponse
}

func (s *slowReplica) Send(r *pb.WorkRequest) error {
	switch {
	case r.GetReattach() != nil:
		close(s.asked)
	case r.GetHeartbeat() != nil:
		s.beats <- struct{}{}
	}
	return nil
}

func (s *slowReplica) Recv() (*pb.WorkResponse, error) { return <-s.answers, nil }
