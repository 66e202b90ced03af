package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/route"
	"github.com/coppice-run/coppice/internal/wire"
)

// Times of a stream. One on which nothing was heard for silentAtMost is broken.
// An idle one is replaced when it has lived for its age, so that the streams
// spread over the replicas that there are, also those that came later (which replicas
// there are, connections learn by ending: see package api): soon at first, since a stream
// that took what could be reached just then is where most of them are.
const (
	heartbeatInterval = time.Second
	silenceTimeout    = 3 * time.Second
	firstMaxAge       = time.Second
	minMaxAge         = 30 * time.Second
)

// link is one stream to an orchestrator.
type workStream struct {
	rpc           pb.WorkerService_WorkClient
	welcome       *pb.Welcome
	protocol      int32         // that is spoken on it
	endpoint      string        // where it goes; empty: not known
	misrouted     bool          // it was to go elsewhere, where nobody can be reached
	broken        chan struct{} // closed when nothing more will be received
	abandoned     chan struct{} // closed when it is not wanted any more, though it is not broken
	cancel        context.CancelFunc
	openedAt      time.Time
	maxAge        time.Duration // how long, if it is idle then
	expired       atomic.Bool   // it was ended because it had lived for so long
	lastReceived  atomic.Int64  // when anything was last received, since begun
	claimAnswered atomic.Bool   // a claim was answered on it with more than a refusal of the protocol
	sendMu        sync.Mutex    // held while something is sent; taken after those of the line
}

// openLink opens a stream, to an endpoint if that can be reached, waits for its welcome and
// says hello. The stream outlives ctx, so that it can be ended in good order.
func openStream(opening context.Context, client pb.WorkerServiceClient, endpoint string, hello *pb.Hello, now time.Time) (*workStream, error) {
	ctx, way := route.To(context.WithoutCancel(opening), endpoint)
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(opening, cancel)()
	// An address that answers nothing must not hold the slot.
	tooLate := time.AfterFunc(silenceTimeout, cancel)
	defer tooLate.Stop()
	rpc, err := client.Work(ctx)
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
		rpc: rpc, welcome: welcome, endpoint: way.Took(), misrouted: way.Down(), cancel: cancel, broken: make(chan struct{}), abandoned: make(chan struct{}),
		protocol: min(wire.Protocol, welcome.GetProtocol()), openedAt: now, maxAge: randomAge(minMaxAge),
	}
	switch {
	case welcome == nil:
		err = fmt.Errorf("the orchestrator did not start with a welcome, but with %T", first.GetKind())
	case s.protocol < max(wire.OldestProtocol, welcome.GetOldestProtocol()):
		err = fmt.Errorf("no common protocol: replica %s speaks %d to %d, this worker %d to %d",
			welcome.GetReplicaId(), welcome.GetOldestProtocol(), welcome.GetProtocol(), wire.OldestProtocol, wire.Protocol)
	case welcome.GetWindow() < window:
		err = fmt.Errorf("replica %s takes %d requests ahead, need %d", welcome.GetReplicaId(), welcome.GetWindow(), window)
	default:
		err = rpc.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Hello{Hello: hello}}) // older replicas pass over it
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// send sends a request. Their order is the caller's to keep.
func (s *workStream) send(r *pb.WorkRequest) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.rpc.Send(r)
}

// closeSend says that nothing more will be sent.
func (s *workStream) closeSend() error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.rpc.CloseSend()
}

// receive gives the next response.
func (s *workStream) receive(now func() time.Time) (*pb.WorkResponse, error) {
	resp, err := s.rpc.Recv()
	s.lastReceived.Store(int64(now().Sub(s.openedAt)))
	return resp, err
}

// features are those of the orchestrator.
func (s *workStream) features() wire.Features { return s.welcome.GetFeatures() }

// watch keeps the stream alive, and ends it when the other side is silent or when
// it is old and may rest. beat sends a heartbeat, and may block.
func (s *workStream) watch(now func() time.Time, beat func(), rest func() bool) {
	if s.features().Has(wire.FeatureHeartbeat) {
		go func() {
			tick := time.NewTicker(heartbeatInterval)
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
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.broken:
			return
		}
		silent := now().Sub(s.openedAt)-time.Duration(s.lastReceived.Load()) > silenceTimeout
		old := s.isExpired(now()) && rest()
		if silent && s.features().Has(wire.FeatureHeartbeat) || old {
			s.expired.Store(old)
			s.cancel()
			return
		}
	}
}

// old reports whether the stream has lived for so long that another one may be better.
func (s *workStream) isExpired(now time.Time) bool { return now.Sub(s.openedAt) > s.maxAge }

// aged is an age of some time, or up to twice that.
func randomAge(atLeast time.Duration) time.Duration { return atLeast + rand.N(atLeast) }
