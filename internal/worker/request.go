package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// request is a request and its answer.
type request struct {
	conn            *conn
	req             *pb.WorkRequest
	answered        chan struct{}
	inWindow        bool // it has a place in the window; only the claim of a given run has none
	response        *pb.WorkResponse
	transcriptParts []*pb.Message  // of a claim: the transcript so far, after the held messages
	heldMessages    []tree.Message // of an end: held messages of the run that may be given next
	err             error
}

// assignment is a granted claim with its whole transcript: the held messages and then the sent
// ones.
type assignment struct {
	*pb.Assignment
	heldMessages []tree.Message
	sentMessages []*pb.Message
}

// refusal is the error of a claim that was not granted.
type refusal struct{ cause pb.RefusedCause }

func (r *refusal) Error() string { return "the claim was refused: " + r.cause.String() }

// claim claims a run. held is the beginning of its transcript that the worker has already. onLost
// is called when the attempt is lost.
func (c *conn) claim(ctx context.Context, onLost context.CancelFunc, claim *pb.Claim, held []tree.Message) (*assignment, *journal, error) {
	claim.Held = describeHeld(held)
	c.sendMu.Lock()
	c.startSequenceAt(0)
	c.sendMu.Unlock()
	c.mu.Lock()
	c.beginAttempt(claim, held, onLost)
	j := newJournal(c)
	if c.stream != nil {
		claim.Protocol = c.stream.protocol
	}
	c.mu.Unlock()
	a, err := j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: claim}}).waitAssignment(ctx, held)
	return a, j, err
}

// waitAssignment waits for the answer to a claim.
func (r *request) waitAssignment(ctx context.Context, offered []tree.Message) (*assignment, error) {
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	switch k := r.response.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		kept := int(k.Assignment.GetHeldMessages())
		if kept < 0 || kept > len(offered) {
			return nil, fmt.Errorf("the orchestrator omitted %d messages, but only %d are cached here", kept, len(offered))
		}
		return &assignment{k.Assignment, slices.Clip(offered[:kept]), r.transcriptParts}, nil // a cache has the rest of offered
	case *pb.WorkResponse_Refused:
		return nil, &refusal{k.Refused.GetCause()}
	}
	return nil, fmt.Errorf("unexpected answer %T to the claim", r.response.GetKind())
}

// describeHeld describes held messages to the orchestrator.
func describeHeld(held []tree.Message) *pb.TranscriptHeld {
	if len(held) == 0 {
		return nil
	}
	return &pb.TranscriptHeld{
		Messages: int32(len(held)), FirstId: held[0].ID.String(), LastId: held[len(held)-1].ID.String(),
	}
}

// send numbers a request and sends it, or leaves it for the next stream. The answer is delivered
// to the returned request. Everything that an attempt records goes through here, and secrets are
// removed from it.
func (j *journal) send(req *pb.WorkRequest) *request {
	c := j.conn
	if c.canJoinDeltas() {
		req.Shows = j.deltas.take()
	} else {
		j.deltas.flush()
	}
	c.redact(req)
	r := &request{conn: c, req: req, answered: make(chan struct{}), inWindow: true}
	if j.offerSlot != nil && givesRunBack(req) {
		req.Takes, r.heldMessages = j.offerSlot()
	}
	c.window <- struct{}{} // freed by an answer or by the end of the attempt
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	if c.attemptOver || c.attempt.number != j.attemptNumber {
		c.mu.Unlock()
		r.err = loop.ErrLost
		r.complete()
		return r
	}
	c.seq++
	req.Seq = c.seq
	c.unanswered = append(c.unanswered, r)
	c.mu.Unlock()
	c.unsent = append(c.unsent, r)
	c.hasUnsent.Store(true)
	if !expectsMore(req) {
		c.flushUnsent()
	}
	return r
}

// expectsMore reports whether the attempt is about to send another request or to wait for the
// answer. Requests that arrive together are stored in one transaction.
func expectsMore(req *pb.WorkRequest) bool { return req.GetAppend() != nil || req.GetSpawn() != nil }

// givesRunBack reports whether a request gives the run back, unless there is news for it.
func givesRunBack(req *pb.WorkRequest) bool {
	return req.GetPark() != nil || req.GetEnd() != nil || req.GetStopHooks() != nil
}

// flushUnsent sends the unsent requests, or leaves them for the next stream. The caller holds
// sendMu.
func (c *conn) flushUnsent() {
	c.mu.Lock()
	s, over := c.stream, c.attemptOver
	c.mu.Unlock()
	for i, r := range c.unsent {
		r.req.More = i < len(c.unsent)-1
		if s != nil && !over && s.send(r.req) != nil {
			s.cancel()
		}
	}
	c.clearUnsent()
}

func (c *conn) clearUnsent() {
	c.unsent = nil
	c.hasUnsent.Store(false)
}

// startSequenceAt sets the number of the next request, the first of an attempt. The caller holds
// sendMu.
func (c *conn) startSequenceAt(first int64) {
	c.seq = first - 1
	c.clearUnsent()
}

// delta sends a piece of the answer in progress if there is a stream; otherwise the piece is
// dropped.
func (j *journal) delta(d *pb.TextDelta) {
	c := j.conn
	c.redact(d)
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	s := c.stream
	if c.attemptOver || c.attempt.number != j.attemptNumber {
		s = nil
	}
	c.mu.Unlock()
	if s != nil && s.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Delta{Delta: d}}) != nil {
		s.cancel()
	}
}

// redact removes secrets from a message.
func (c *conn) redact(m proto.Message) {
	if !c.secrets.None() {
		wire.Clean(m, c.secrets)
	}
}

// answerOldest passes a response to the oldest unanswered request. The request is complete if
// accept returns true.
func (c *conn) answerOldest(accept func(*request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unanswered) == 0 {
		return // an answer to an attempt that was dropped
	}
	r := c.unanswered[0]
	if !accept(r) {
		return
	}
	c.unanswered = c.unanswered[1:]
	switch k := r.response.GetKind().(type) {
	case *pb.WorkResponse_Parked, *pb.WorkResponse_Ended, *pb.WorkResponse_Refused:
		c.attemptOver = true
		switch given := r.response.GetGiven(); {
		case c.closed:
		case given != nil:
			c.beginGivenRun(r, given)
		case r.response.GetStandsBy():
			c.standbyRequest, c.standbyDone = r, make(chan struct{})
		}
	case *pb.WorkResponse_Assignment:
		// A summary precedes messages that are older, so ordinals are not sorted.
		held := c.attempt.heldMessages
		for i := range min(int(k.Assignment.GetHeldMessages()), len(held)) {
			c.attempt.knownOrdinal = max(c.attempt.knownOrdinal, int32(held[i].Ordinal))
		}
		for _, m := range r.transcriptParts {
			c.attempt.knownOrdinal = max(c.attempt.knownOrdinal, m.GetOrdinal())
		}
	case *pb.WorkResponse_Ack:
		c.attempt.knownOrdinal = max(c.attempt.knownOrdinal, k.Ack.GetOrdinal(), k.Ack.GetBoundary().GetOrdinal())
	}
	r.complete()
}

// loseAttempt ends the current attempt: none of its requests will be answered.
func (c *conn) loseAttempt() { c.endLostAttempt(nil) }

// endLostAttempt is loseAttempt for an attempt whose last answer was lost. given is the run that
// the slot got with that answer; nil: none.
func (c *conn) endLostAttempt(given *pb.GivenRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := c.unanswered
	for _, r := range lost {
		r.err = loop.ErrLost
		r.complete()
	}
	c.unanswered, c.attemptOver = nil, true
	c.clearStandby()
	if c.attempt.onLost != nil {
		c.attempt.onLost()
	}
	if n := len(lost); given != nil && n > 0 && !c.closed {
		c.beginGivenRun(lost[n-1], given)
	}
}

// complete marks the request as answered or failed, and frees its place in the window.
func (r *request) complete() {
	close(r.answered)
	if r.inWindow {
		<-r.conn.window
	}
}

func (r *request) wait(ctx context.Context) error {
	if c := r.conn; c.hasUnsent.Load() {
		c.sendMu.Lock()
		c.flushUnsent()
		c.sendMu.Unlock()
	}
	select {
	case <-r.answered:
		return r.err
	case <-ctx.Done():
		return loop.ErrLost
	}
}

// isDone reports whether the request has been answered or has failed.
func (r *request) isDone() bool {
	select {
	case <-r.answered:
		return true
	default:
		return false
	}
}

// waitAtMost waits up to d for the answer.
func (r *request) waitAtMost(d time.Duration) {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-r.answered:
	case <-wait.C:
	}
}
