package worker

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// offerStandby offers the orchestrator that the idle slot stands by, if the replica supports that.
// If the slot is given a run, takeGivenRun returns it once waitStandby has returned.
func (c *conn) offerStandby(claim *pb.Claim) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	s := c.stream
	if s == nil || c.closed || !s.features().Has(wire.FeatureStandby) {
		c.mu.Unlock()
		return
	}
	claim.Protocol = s.protocol
	c.beginAttempt(claim, nil, nil)
	c.attemptOver = true
	c.standbyRequest = &request{req: &pb.WorkRequest{Takes: &pb.Takes{Nonce: claim.GetNonce()}}}
	c.standbyDone = make(chan struct{})
	c.mu.Unlock()
	if s.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StandBy{StandBy: claim}}) != nil {
		s.cancel()
	}
}

// waitStandby waits while the slot stands by. Afterwards takeGivenRun returns the run, if there is
// one. If ctx ends, waitStandby tells the orchestrator to stop; a run that was given before that
// still belongs to this slot.
func (c *conn) waitStandby(ctx context.Context) {
	c.mu.Lock()
	ended := c.standbyDone
	c.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	detached, sent := c.sendStandDown()
	if !sent {
		return
	}
	select {
	case <-ended:
	case <-detached: // the orchestrator can no longer give it a run
	}
}

// sendStandDown tells the orchestrator that the slot no longer stands by, if there is a stream. No
// answer comes once detached is closed.
func (c *conn) sendStandDown() (detached <-chan struct{}, sent bool) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	s, detached := c.stream, c.detached
	c.mu.Unlock()
	if s == nil {
		return nil, false
	}
	if s.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StandDown{StandDown: &pb.StandDown{}}}) != nil {
		s.cancel()
	}
	return detached, true
}

// endStandby ends the standby, with a run if given is not nil.
func (c *conn) endStandby(given *pb.GivenRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standbyRequest != nil && given != nil && !c.closed {
		c.beginGivenRun(c.standbyRequest, given)
	}
	c.clearStandby()
}

// clearStandby wakes waitStandby. The caller holds mu.
func (c *conn) clearStandby() {
	if c.standbyRequest != nil {
		c.standbyRequest = nil
		close(c.standbyDone)
		c.standbyDone = nil
	}
}
