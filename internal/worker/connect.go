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
func (c *conn) stayConnected(ctx context.Context) {
	defer c.closingStreams.Wait()
	defer c.close()
	settled := false
	for wait := reconnectMin; ctx.Err() == nil; {
		if s := c.open(ctx, settled); s != nil {
			err := c.serve(ctx, s)
			if s.claimAnswered.Load() || s.expired.Load() {
				wait = reconnectMin
			}
			if settled = s.expired.Load() || err == nil; err == nil {
				continue
			}
			c.log.DebugContext(ctx, "a stream to an orchestrator has ended", "error", err)
		}
		pause(ctx, wait/2+rand.N(wait))
		wait = min(2*wait, c.maxReconnectDelay())
	}
}

// open opens a stream to an orchestrator that can do what is needed; nil if there is none now.
// One that is not the first, nor comes after one that broke, is settled.
func (c *conn) open(ctx context.Context, settled bool) *workStream {
	aim := c.takeNextEndpoint()
	s, err := openStream(ctx, c.client, aim, c.hello, c.now())
	if err == nil && c.requiredFeature != "" && !s.features().Has(c.requiredFeature) {
		s.cancel()
		err = fmt.Errorf("replica %s does not know %q", s.welcome.GetReplicaId(), c.requiredFeature)
	}
	if err != nil {
		c.replicas.forget(aim) // who wants to go there does not wait as long
		if ctx.Err() == nil && c.reachability.recordFailure(c.now()) {
			c.logUnreachable(ctx, err)
		}
		return nil
	}
	if c.reachability.recordSuccess() {
		c.log.InfoContext(ctx, "an orchestrator is reached again")
	}
	if !settled && s.endpoint != "" {
		s.maxAge = randomAge(firstMaxAge)
	}
	if s.misrouted {
		c.replicas.forget(aim) // or each hint from there would end another stream in vain
	}
	c.replicas.record(s.welcome.GetReplicaId(), s.endpoint)
	c.onWelcome(s.welcome)
	return s
}

// unreached says what a stream that could not be opened means: one that has answered can be
// reached.
func (c *conn) logUnreachable(ctx context.Context, err error) {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		c.log.WarnContext(ctx, "no orchestrator lets this worker in: its token is wrong, or no worker's", "error", err)
	default:
		c.log.WarnContext(ctx, "no orchestrator can be reached", "error", err)
	}
}

// patience is how long to wait at most before another stream is opened: an attempt
// has only the grace.
func (c *conn) maxReconnectDelay() time.Duration {
	if c.isIdle() {
		return retryMax
	}
	return reconnectMaxAttached
}

// serve takes one stream into use and receives from it until it breaks, or ctx ends, or
// another one is wanted, which is no error.
func (c *conn) serve(ctx context.Context, s *workStream) error {
	ended := make(chan error, 1)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(c.now, func() { c.sendHeartbeat(s) }, func() bool { return c.detachIfIdle(s) }) })
	go func() {
		defer close(s.broken)
		ended <- c.receive(s)
	}()
	over := func() {
		s.cancel()
		watching.Wait()
	}
	var err error
	select {
	case err = <-ended:
	case <-s.abandoned:
		c.closingStreams.Go(func() {
			c.closeStream(s)
			over()
		})
		return nil
	case <-ctx.Done():
		err = ctx.Err()
		c.detach(s)
		c.loseAttempt()
		c.closeStream(s)
	}
	c.detach(s)
	over()
	return err
}

// aim gives the endpoint that the next stream is to go to, once.
func (c *conn) takeNextEndpoint() (endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	endpoint, c.nextEndpoint = c.nextEndpoint, ""
	return endpoint
}

// turnTo makes the claim that comes next go to a replica, over another stream if need be. No
// attempt is on the line. If nobody has found the replica yet, an old stream ends for one to any:
// so those are found that come later, though no slot is ever idle. No replica: it stays where it
// is.
func (c *conn) preferReplica(replica string) {
	endpoint := c.replicas.endpoint(replica)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimPending = true
	switch s := c.stream; {
	case s == nil:
		c.nextEndpoint = endpoint // for the stream that is being opened, too
	case replica == s.welcome.GetReplicaId(): // which may have other addresses as well
	case endpoint != "" && endpoint != s.endpoint:
		c.reconnectTo(endpoint)
	case endpoint == "" && replica != "" && s.isExpired(c.now()):
		c.reconnectTo("")
	}
}

// change leaves the stream that there is for one to an endpoint; empty: to any. It needs the lock.
func (c *conn) reconnectTo(endpoint string) {
	s := c.stream
	c.nextEndpoint = endpoint
	c.detachLocked()
	close(s.abandoned)
}

// goodbye is how long the orchestrator may take to end a stream that the worker
// has ended.
const streamCloseTimeout = time.Second

func (c *conn) closeStream(s *workStream) {
	defer time.AfterFunc(streamCloseTimeout, s.cancel).Stop() // also ends a send that hangs
	c.sendMu.Lock()
	err := s.closeSend()
	c.sendMu.Unlock()
	if err == nil {
		<-s.broken
	}
}
