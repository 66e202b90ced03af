package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/route"
	"github.com/coppice-run/coppice/internal/wire"
)

// A stream is given up if it does not open within openTimeout. An idle stream is replaced once it is
// older than its maxAge, so that streams spread over all replicas, including new ones.
// (Package api describes how connections learn which replicas exist: by ending.) The first stream,
// and one that replaces a broken stream, have a short maximum age: they went to whichever replica
// was reachable at that moment, as did most others.
const (
	openTimeout = 3 * time.Second
	firstMaxAge = time.Second
	minMaxAge   = 30 * time.Second
)

// workStream is one stream to an orchestrator.
type workStream struct {
	rpc           pb.WorkerService_WorkClient
	welcome       *pb.Welcome
	protocol      int32         // version that both sides speak
	endpoint      string        // where it goes; empty: unknown
	misrouted     bool          // it was meant for another endpoint, which is unreachable
	broken        chan struct{} // closed when nothing more will be received
	abandoned     chan struct{} // closed when the stream is no longer wanted, though it is not broken
	cancel        context.CancelFunc
	openedAt      time.Time
	maxAge        time.Duration // after which it is replaced when idle
	expired       atomic.Bool   // it was ended because of its age
	saidDraining  atomic.Bool   // the orchestrator was told that the worker drains
	silence       wire.Silence
	claimAnswered atomic.Bool // a claim or a reattachment was answered, other than with a protocol refusal
	sendMu        sync.Mutex  // held during a send; locked after the mutexes of the conn
}

// openStream opens a stream, to endpoint if that is reachable, waits for the welcome and says
// hello. The stream outlives ctx, so that it can be closed in order.
func openStream(opening context.Context, client pb.WorkerServiceClient, endpoint string, hello *pb.Hello, now time.Time) (*workStream, error) {
	ctx, way := route.Prefer(context.WithoutCancel(opening), endpoint)
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(opening, cancel)()
	// An address that does not answer must not block the slot.
	tooLate := time.AfterFunc(openTimeout, cancel)
	defer tooLate.Stop()
	rpc, err := client.Work(ctx, grpc.ForceCodecV2(wire.WorkerCodec{Codec: wire.NewCodec()}))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	first, err := rpc.Recv()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("waiting for the welcome: %w", err)
	}
	welcome := first.GetWelcome()
	s := &workStream{
		rpc: rpc, welcome: welcome, endpoint: way.Endpoint(), misrouted: way.Unreachable(), cancel: cancel, broken: make(chan struct{}), abandoned: make(chan struct{}),
		protocol: min(wire.Protocol, welcome.GetProtocol()), openedAt: now, maxAge: randomAge(minMaxAge),
	}
	switch {
	case welcome == nil:
		err = fmt.Errorf("expected a welcome as the first message of the orchestrator, got %T", first.GetKind())
	case s.protocol < max(wire.OldestProtocol, welcome.GetOldestProtocol()):
		err = fmt.Errorf("no common protocol version: replica %s supports %d to %d, this worker supports %d to %d",
			welcome.GetReplicaId(), welcome.GetOldestProtocol(), welcome.GetProtocol(), wire.OldestProtocol, wire.Protocol)
	case welcome.GetWindow() < window:
		err = fmt.Errorf("replica %s accepts %d unanswered requests, this worker needs %d", welcome.GetReplicaId(), welcome.GetWindow(), window)
	default:
		err = rpc.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Hello{Hello: hello}}) // older replicas ignore it
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// send sends a request. The caller is responsible for the order.
func (s *workStream) send(r *pb.WorkRequest) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if large := wire.Announcement(r.SizeVT()); large != nil {
		if err := s.rpc.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Heartbeat{Heartbeat: large}}); err != nil {
			return err
		}
	}
	return s.rpc.Send(r)
}

// closeSend tells the orchestrator that nothing more will be sent.
func (s *workStream) closeSend() error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.rpc.CloseSend()
}

// receive returns the next response.
func (s *workStream) receive() (*pb.WorkResponse, error) {
	resp, err := s.rpc.Recv()
	s.silence.Break(resp.GetHeartbeat())
	return resp, err
}

// features returns the orchestrator's features.
func (s *workStream) features() wire.Features { return s.welcome.GetFeatures() }

// watch keeps the stream alive with beat, which sends a heartbeat and may block. It ends the stream
// when the other side is silent, or when the stream is too old and rest returns true: no request is
// sent over it any more.
func (s *workStream) watch(now func() time.Time, beat func(), rest func() bool) {
	if s.features().Has(wire.FeatureHeartbeat) {
		go func() {
			tick := time.NewTicker(wire.HeartbeatInterval)
			defer tick.Stop()
			for {
				beat()
				select {
				case <-tick.C:
				case <-s.broken:
					return
				}
			}
		}()
	}
	tick := time.NewTicker(wire.HeartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.broken:
			return
		}
		switch {
		case s.silence.Tick() && s.features().Has(wire.FeatureHeartbeat):
			s.cancel()
			return
		case s.isExpired(now()) && rest():
			// It is closed in order. If it broke, the orchestrator would check whether the worker is
			// dead, and if the worker stops then, take it for that.
			s.expired.Store(true)
			close(s.abandoned)
			return
		}
	}
}

// isExpired reports whether the stream is so old that it should be replaced.
func (s *workStream) isExpired(now time.Time) bool { return now.Sub(s.openedAt) > s.maxAge }

// randomAge returns a random duration from atLeast to twice that.
func randomAge(atLeast time.Duration) time.Duration { return atLeast + rand.N(atLeast) }
