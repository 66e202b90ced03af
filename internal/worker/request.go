package worker

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// claim asks for a run, of whose transcript the worker holds the beginning. drop is called
// when the attempt is lost.
func (c *conn) claim(ctx context.Context, drop context.CancelFunc, claim *pb.Claim, held []tree.Message) (*assignment, *journal, error) {
	claim.Held = describeHeld(held)
	c.sendMu.Lock()
	c.startSequenceAt(0)
	c.sendMu.Unlock()
	c.mu.Lock()
	c.beginAttempt(claim, held, drop)
	j := newJournal(c)
	if c.stream != nil {
		claim.Protocol = c.stream.protocol
	}
	c.mu.Unlock()
	a, err := j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: claim}}).waitAssignment(ctx, held)
	return a, j, err
}

// assigned waits for the answer to a claim.
func (r *request) waitAssignment(ctx context.Context, offered []tree.Message) (*assignment, error) {
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	switch k := r.response.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		kept := int(k.Assignment.GetHeldMessages())
		if kept < 0 || kept > len(offered) {
			return nil, fmt.Errorf("the orchestrator left out %d messages, of which %d are held", kept, len(offered))
		}
		return &assignment{k.Assignment, offered[:kept], r.transcriptParts}, nil
	case *pb.WorkResponse_Refused:
		return nil, &refusal{k.Refused.GetCause()}
	}
	return nil, fmt.Errorf("the claim was answered with %T", r.response.GetKind())
}

// heldOf says what is held of a transcript.
func describeHeld(held []tree.Message) *pb.TranscriptHeld {
	if len(held) == 0 {
		return nil
	}
	return &pb.TranscriptHeld{
		Messages: int32(len(held)), FirstId: held[0].ID.String(), LastId: held[len(held)-1].ID.String(),
	}
}

// send numbers a request and sends it, or leaves it to the next stream; the answer
// comes to the request. All that an attempt records goes through here, and no secret
// does, whoever has put it in.
func (j *journal) send(req *pb.WorkRequest) *request {
	c := j.conn
	if c.canJoinDeltas() {
		req.Shows = j.deltas.take()
	} else {
		j.deltas.flush()
	}
	c.redact(req)
	r := &request{conn: c, req: req, answered: make(chan struct{}), inWindow: true}
	if j.offerSlot != nil && releasesRun(req) {
		req.Takes, r.heldMessages = j.offerSlot()
	}
	c.window <- struct{}{} // room comes with an answer, or with the end of the attempt
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

// goesOn reports whether the attempt is about to say more, or to wait for the answer. What
// comes together is stored together.
func expectsMore(req *pb.WorkRequest) bool { return req.GetAppend() != nil || req.GetSpawn() != nil }

// givesBack reports whether a request gives the run back, unless there is news for it.
func releasesRun(req *pb.WorkRequest) bool {
	return req.GetPark() != nil || req.GetEnd() != nil || req.GetStopHooks() != nil
}

// flush sends what is unsent, or leaves it to the next stream. It needs the lock of what is
// sent.
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

// renumber has the next request be the first of an attempt, with that number. It needs the
// lock of what is sent.
func (c *conn) startSequenceAt(first int64) {
	c.seq = first - 1
	c.clearUnsent()
}

// delta shows a piece of the answer under way, if there is a stream for it.
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

// clean takes the secrets out of what goes out.
func (c *conn) redact(m proto.Message) {
	if !c.secrets.None() {
		wire.Clean(m, c.secrets)
	}
}

// oldest gives the oldest request its answer, or a piece of it; it is done when
// take says so.
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
		// A summary comes before messages that are older than it.
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

// lose ends the attempt on the line: nothing that is under way will be answered.
func (c *conn) loseAttempt() { c.endLostAttempt(nil) }

// drops is lose for an attempt that has ended without a word, and has given its slot another
// run if given is not nil.
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

// done says that the request has its answer, or will have none, and gives its place back.
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

// over reports whether the request has its answer, or will have none.
func (r *request) isDone() bool {
	select {
	case <-r.answered:
		return true
	default:
		return false
	}
}

// within waits for the answer so long.
func (r *request) waitAtMost(d time.Duration) {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-r.answered:
	case <-wait.C:
	}
}
