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

// stayConnected opens one stream after another until ctx ends. Then it closes the last one in
// order, which hands the current attempt over to other workers.
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

// open opens a stream to a suitable orchestrator, or returns nil if there is none now. settled is
// false for the first stream and for one that replaces a broken one: these get a shorter maximum
// age.
func (c *conn) open(ctx context.Context, settled bool) *workStream {
	aim := c.takeNextEndpoint()
	s, err := openStream(ctx, c.client, aim, c.hello, c.now())
	if err == nil && c.requiredFeature != "" && !s.features().Has(c.requiredFeature) {
		s.cancel()
		err = fmt.Errorf("replica %s does not support the feature %q", s.welcome.GetReplicaId(), c.requiredFeature)
	}
	if err != nil {
		c.replicas.forget(aim) // so that others do not try it as well
		if ctx.Err() == nil && c.reachability.recordFailure(c.now()) {
			c.logUnreachable(ctx, err)
		}
		return nil
	}
	if c.reachability.recordSuccess() {
		c.log.InfoContext(ctx, "connected to an orchestrator again")
	}
	if !settled && s.endpoint != "" {
		s.maxAge = randomAge(firstMaxAge)
	}
	if s.misrouted {
		c.replicas.forget(aim) // or each hint from there would end another stream for nothing
	}
	c.replicas.record(s.welcome.GetReplicaId(), s.endpoint)
	c.onWelcome(s.welcome)
	return s
}

// logUnreachable logs why a stream could not be opened. An orchestrator that refuses the worker's
// token is reachable, so that case has its own message.
func (c *conn) logUnreachable(ctx context.Context, err error) {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		c.log.WarnContext(ctx, "no orchestrator accepts this worker: its token is not valid, or does not have the role worker", "error", err)
	default:
		c.log.WarnContext(ctx, "no orchestrator can be reached", "error", err)
	}
}

// maxReconnectDelay is short while an attempt is in progress, which has only the grace period to
// reconnect.
func (c *conn) maxReconnectDelay() time.Duration {
	if c.isAttemptOver() {
		return retryMax
	}
	return reconnectMaxAttached
}

// serve uses a stream until it breaks, ctx ends, or another stream is wanted. The last is not an
// error.
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

// takeNextEndpoint returns the endpoint that the next stream should go to, and clears it.
func (c *conn) takeNextEndpoint() (endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	endpoint, c.nextEndpoint = c.nextEndpoint, ""
	return endpoint
}

// preferReplica makes the next claim go to a replica, over another stream if necessary. The caller
// has no attempt in progress. If the replica's endpoint is unknown, an expired stream is replaced
// by one to any endpoint; this is how new replicas are found while no slot is ever idle. An empty
// replica changes nothing.
func (c *conn) preferReplica(replica string) {
	endpoint := c.replicas.endpoint(replica)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimPending = true
	switch s := c.stream; {
	case s == nil:
		c.nextEndpoint = endpoint // for the stream that is being opened, too
	case replica == s.welcome.GetReplicaId(): // the replica may have several addresses
	case endpoint != "" && endpoint != s.endpoint:
		c.reconnectTo(endpoint)
	case endpoint == "" && replica != "" && s.isExpired(c.now()):
		c.reconnectTo("")
	}
}

// reconnectTo abandons the current stream for one to an endpoint; empty: any. The caller holds mu.
func (c *conn) reconnectTo(endpoint string) {
	s := c.stream
	c.nextEndpoint = endpoint
	c.detachLocked()
	close(s.abandoned)
}

// streamCloseTimeout is how long the orchestrator may take to end a stream that the worker has
// closed.
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
