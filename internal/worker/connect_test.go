package worker

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// quiet is a replica that has nothing to say but that it is there.
type quiet struct {
	pb.WorkerServiceClient
	installation  string
	opened, ended chan time.Time // of each stream
	broke         *atomic.Int32  // how many streams were not closed in order; may be nil
}

func (q quiet) Work(ctx context.Context, _ ...grpc.CallOption) (pb.WorkerService_WorkClient, error) {
	q.opened <- time.Now()
	return &quietStream{ctx: ctx, installation: q.installation, ended: q.ended, broke: q.broke, closed: make(chan struct{})}, nil
}

type quietStream struct {
	pb.WorkerService_WorkClient
	ctx          context.Context
	installation string
	ended        chan time.Time
	broke        *atomic.Int32
	closed       chan struct{}
	welcomed     bool
}

func (s *quietStream) Send(*pb.WorkRequest) error { return s.ctx.Err() }

func (s *quietStream) CloseSend() error {
	close(s.closed)
	return nil
}

func (s *quietStream) Recv() (*pb.WorkResponse, error) {
	if !s.welcomed {
		s.welcomed = true
		return &pb.WorkResponse{Kind: &pb.WorkResponse_Welcome{Welcome: &pb.Welcome{
			InstallationId: s.installation,
			Window:         window, Protocol: wire.Protocol, OldestProtocol: wire.Protocol, Features: []string{wire.FeatureHeartbeat},
		}}}, nil
	}
	select {
	case <-time.After(wire.HeartbeatInterval):
		return &pb.WorkResponse{Kind: &pb.WorkResponse_Heartbeat{Heartbeat: &pb.Heartbeat{}}}, nil
	case <-s.closed:
		s.ended <- time.Now()
		return nil, io.EOF
	case <-s.ctx.Done():
		if s.broke != nil {
			s.broke.Add(1)
		}
		s.ended <- time.Now()
		return nil, s.ctx.Err()
	}
}

// TestAnIdleSlotIsSoonConnectedAgain when its stream has ended for its age, however often. Each is
// closed in order: of a stream that breaks, an orchestrator asks whether its worker is dead.
func TestAnIdleSlotIsSoonConnectedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const streams = 20
		q := quiet{opened: make(chan time.Time), ended: make(chan time.Time, streams), broke: new(atomic.Int32)}
		l := (&Worker{Config: Config{Client: q, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, replicas: newReplicaEndpoints()}).newConn()
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			l.stayConnected(ctx)
		}()
		<-q.opened
		for n := 1; n < streams; n++ {
			ended, opened := <-q.ended, <-q.opened
			if without := opened.Sub(ended); without > 2*reconnectMin {
				t.Errorf("after stream %d there was none for %s", n, without)
			}
		}
		synctest.Wait() // the last stream is open, not being opened: that would end at once
		stop()
		<-over
		if n := q.broke.Load(); n > 0 {
			t.Errorf("%d of %d streams were not closed in order", n, streams)
		}
	})
}
