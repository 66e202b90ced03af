package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stayConnected opens one stream after another until ctx ends, then ends the last one in
// good order, which hands the attempt on it over to other workers.
func (l *line) stayConnected(ctx context.Context) {
	defer l.leaving.Wait()
	defer l.close()
	settled := false
	for wait := reconnectMin; ctx.Err() == nil; {
		if k := l.open(ctx, settled); k != nil {
			err := l.serve(ctx, k)
			if k.useful.Load() || k.aged.Load() {
				wait = reconnectMin
			}
			if settled = k.aged.Load() || err == nil; err == nil {
				continue
			}
			l.log.DebugContext(ctx, "a stream to an orchestrator has ended", "error", err)
		}
		pause(ctx, wait/2+rand.N(wait))
		wait = min(2*wait, l.patience())
	}
}

// open opens a stream to an orchestrator that can do what is needed; nil if there is none now.
// One that is not the first, nor comes after one that broke, is settled.
func (l *line) open(ctx context.Context, settled bool) *link {
	aim := l.aim()
	k, err := openLink(ctx, l.client, aim, l.hello, l.now())
	if err == nil && l.needs != "" && !k.features().Has(l.needs) {
		k.cancel()
		err = fmt.Errorf("replica %s does not know %q", k.welcome.GetReplicaId(), l.needs)
	}
	if err != nil {
		l.replicas.forget(aim) // who wants to go there does not wait as long
		if ctx.Err() == nil && l.reachability.recordFailure(l.now()) {
			l.unreached(ctx, err)
		}
		return nil
	}
	if l.reachability.recordSuccess() {
		l.log.InfoContext(ctx, "an orchestrator is reached again")
	}
	if !settled && k.endpoint != "" {
		k.lives = aged(ageAtFirst)
	}
	if k.astray {
		l.replicas.forget(aim) // or each hint from there would end another stream in vain
	}
	l.replicas.record(k.welcome.GetReplicaId(), k.endpoint)
	l.welcome(k.welcome)
	return k
}

// unreached says what a stream that could not be opened means: one that has answered can be
// reached.
func (l *line) unreached(ctx context.Context, err error) {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		l.log.WarnContext(ctx, "no orchestrator lets this worker in: its token is wrong, or no worker's", "error", err)
	default:
		l.log.WarnContext(ctx, "no orchestrator can be reached", "error", err)
	}
}

// patience is how long to wait at most before another stream is opened: an attempt
// has only the grace.
func (l *line) patience() time.Duration {
	if l.idle() {
		return retryMax
	}
	return reconnectMaxAttached
}

// serve takes one stream into use and receives from it until it breaks, or ctx ends, or
// another one is wanted, which is no error.
func (l *line) serve(ctx context.Context, k *link) error {
	ended := make(chan error, 1)
	var watching sync.WaitGroup
	watching.Go(func() { k.watch(l.now, func() { l.beat(k) }, func() bool { return l.rest(k) }) })
	go func() {
		defer close(k.broken)
		ended <- l.receive(k)
	}()
	over := func() {
		k.cancel()
		watching.Wait()
	}
	var err error
	select {
	case err = <-ended:
	case <-k.left:
		l.leaving.Go(func() {
			l.bye(k)
			over()
		})
		return nil
	case <-ctx.Done():
		err = ctx.Err()
		l.takeDown(k)
		l.lose()
		l.bye(k)
	}
	l.takeDown(k)
	over()
	return err
}

// aim gives the endpoint that the next stream is to go to, once.
func (l *line) aim() (endpoint string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	endpoint, l.toward = l.toward, ""
	return endpoint
}

// turnTo makes the claim that comes next go to a replica, over another stream if need be. No
// attempt is on the line. If nobody has found the replica yet, an old stream ends for one to any:
// so those are found that come later, though no slot is ever idle. No replica: it stays where it
// is.
func (l *line) turnTo(replica string) {
	endpoint := l.replicas.endpoint(replica)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims = true
	switch k := l.link; {
	case k == nil:
		l.toward = endpoint // for the stream that is being opened, too
	case replica == k.welcome.GetReplicaId(): // which may have other addresses as well
	case endpoint != "" && endpoint != k.endpoint:
		l.change(endpoint)
	case endpoint == "" && replica != "" && k.old(l.now()):
		l.change("")
	}
}

// change leaves the stream that there is for one to an endpoint; empty: to any. It needs the lock.
func (l *line) change(endpoint string) {
	k := l.link
	l.toward = endpoint
	l.down()
	close(k.left)
}

// goodbye is how long the orchestrator may take to end a stream that the worker
// has ended.
const streamCloseTimeout = time.Second

func (l *line) bye(k *link) {
	defer time.AfterFunc(streamCloseTimeout, k.cancel).Stop() // also ends a send that hangs
	l.sending.Lock()
	err := k.closeSend()
	l.sending.Unlock()
	if err == nil {
		<-k.broken
	}
}
