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
	beatEvery    = time.Second
	silentAtMost = 3 * time.Second
	ageAtFirst   = time.Second
	ageAtLeast   = 30 * time.Second
)

// link is one stream to an orchestrator.
type link struct {
	stream   pb.WorkerService_WorkClient
	welcome  *pb.Welcome
	protocol int32         // that is spoken on it
	endpoint string        // where it goes; empty: not known
	astray   bool          // it was to go elsewhere, where nobody can be reached
	broken   chan struct{} // closed when nothing more will be received
	left     chan struct{} // closed when it is not wanted any more, though it is not broken
	cancel   context.CancelFunc
	begun    time.Time
	lives    time.Duration // how long, if it is idle then
	aged     atomic.Bool   // it was ended because it had lived for so long
	heard    atomic.Int64  // when anything was last received, since begun
	useful   atomic.Bool   // a claim was answered on it with more than a refusal of the protocol
	sending  sync.Mutex    // held while something is sent; taken after those of the line
}

// openLink opens a stream, to an endpoint if that can be reached, waits for its welcome and
// says hello. The stream outlives ctx, so that it can be ended in good order.
func openLink(opening context.Context, client pb.WorkerServiceClient, endpoint string, hello *pb.Hello, now time.Time) (*link, error) {
	ctx, way := route.Prefer(context.WithoutCancel(opening), endpoint)
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(opening, cancel)()
	// An address that answers nothing must not hold the slot.
	tooLate := time.AfterFunc(silentAtMost, cancel)
	defer tooLate.Stop()
	stream, err := client.Work(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	first, err := stream.Recv()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("waiting for the welcome: %w", err)
	}
	welcome := first.GetWelcome()
	k := &link{
		stream: stream, welcome: welcome, endpoint: way.Endpoint(), astray: way.Unreachable(), cancel: cancel, broken: make(chan struct{}), left: make(chan struct{}),
		protocol: min(wire.Protocol, welcome.GetProtocol()), begun: now, lives: aged(ageAtLeast),
	}
	switch {
	case welcome == nil:
		err = fmt.Errorf("the orchestrator did not start with a welcome, but with %T", first.GetKind())
	case k.protocol < max(wire.OldestProtocol, welcome.GetOldestProtocol()):
		err = fmt.Errorf("no common protocol: replica %s speaks %d to %d, this worker %d to %d",
			welcome.GetReplicaId(), welcome.GetOldestProtocol(), welcome.GetProtocol(), wire.OldestProtocol, wire.Protocol)
	case welcome.GetWindow() < window:
		err = fmt.Errorf("replica %s takes %d requests ahead, need %d", welcome.GetReplicaId(), welcome.GetWindow(), window)
	default:
		err = stream.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Hello{Hello: hello}}) // older replicas pass over it
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return k, nil
}

// send sends a request. Their order is the caller's to keep.
func (k *link) send(r *pb.WorkRequest) error {
	k.sending.Lock()
	defer k.sending.Unlock()
	return k.stream.Send(r)
}

// closeSend says that nothing more will be sent.
func (k *link) closeSend() error {
	k.sending.Lock()
	defer k.sending.Unlock()
	return k.stream.CloseSend()
}

// receive gives the next response.
func (k *link) receive(now func() time.Time) (*pb.WorkResponse, error) {
	resp, err := k.stream.Recv()
	k.heard.Store(int64(now().Sub(k.begun)))
	return resp, err
}

// features are those of the orchestrator.
func (k *link) features() wire.Features { return k.welcome.GetFeatures() }

// watch keeps the stream alive, and ends it when the other side is silent or when
// it is old and may rest. beat sends a heartbeat, and may block.
func (k *link) watch(now func() time.Time, beat func(), rest func() bool) {
	if k.features().Has(wire.FeatureHeartbeat) {
		go func() {
			tick := time.NewTicker(beatEvery)
			defer tick.Stop()
			for {
				beat()
				select {
				case <-tick.C:
				case <-k.broken:
					return
				}
			}
		}()
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-k.broken:
			return
		}
		silent := now().Sub(k.begun)-time.Duration(k.heard.Load()) > silentAtMost
		old := k.old(now()) && rest()
		if silent && k.features().Has(wire.FeatureHeartbeat) || old {
			k.aged.Store(old)
			k.cancel()
			return
		}
	}
}

// old reports whether the stream has lived for so long that another one may be better.
func (k *link) old(now time.Time) bool { return now.Sub(k.begun) > k.lives }

// aged is an age of some time, or up to twice that.
func aged(atLeast time.Duration) time.Duration { return atLeast + rand.N(atLeast) }
