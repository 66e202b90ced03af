package worker

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// offer has an idle line wait for a run of the orchestrator's choice, if there is one that lets
// it: takeUp gives that run once standBy is over.
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

// standBy waits as long as the line waits for a run of the orchestrator's choice, if it does;
// takeUp gives it then. If ctx ends, the orchestrator is told so. What it has given by then is
// the line's all the same.
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
	case <-detached: // whoever has a run for it by now finds nobody
	}
}

// standDown says that the line is not to wait any more, unless there is no stream. There will be
// no answer once requests have moved to another one.
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

// stoodDown ends the wait, with a run or without.
func (c *conn) endStandby(given *pb.GivenRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standbyRequest != nil && given != nil && !c.closed {
		c.beginGivenRun(c.standbyRequest, given)
	}
	c.clearStandby()
}

// standsNoMore needs the lock of the line.
func (c *conn) clearStandby() {
	if c.standbyRequest != nil {
		c.standbyRequest = nil
		close(c.standbyDone)
		c.standbyDone = nil
	}
}
