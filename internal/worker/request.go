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
func (l *line) claim(ctx context.Context, drop context.CancelFunc, c *pb.Claim, begins []tree.Message) (*assignment, *journal, error) {
	c.Held = heldOf(begins)
	l.sending.Lock()
	l.renumber(0)
	l.sending.Unlock()
	l.mu.Lock()
	l.begin(c, begins, drop)
	j := newJournal(l)
	if l.link != nil {
		c.Protocol = l.link.protocol
	}
	l.mu.Unlock()
	a, err := j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: c}}).assigned(ctx, begins)
	return a, j, err
}

// assigned waits for the answer to a claim.
func (r *request) assigned(ctx context.Context, begins []tree.Message) (*assignment, error) {
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	switch k := r.response.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		held := int(k.Assignment.GetHeldMessages())
		if held < 0 || held > len(begins) {
			return nil, fmt.Errorf("the orchestrator left out %d messages, of which %d are held", held, len(begins))
		}
		return &assignment{k.Assignment, begins[:held], r.chunks}, nil
	case *pb.WorkResponse_Refused:
		return nil, &refusal{k.Refused.GetCause()}
	}
	return nil, fmt.Errorf("the claim was answered with %T", r.response.GetKind())
}

// heldOf says what is held of a transcript.
func heldOf(begins []tree.Message) *pb.TranscriptHeld {
	if len(begins) == 0 {
		return nil
	}
	return &pb.TranscriptHeld{
		Messages: int32(len(begins)), FirstId: begins[0].ID.String(), LastId: begins[len(begins)-1].ID.String(),
	}
}

// send numbers a request and sends it, or leaves it to the next stream; the answer
// comes to the request. All that an attempt records goes through here, and no secret
// does, whoever has put it in.
func (j *journal) send(req *pb.WorkRequest) *request {
	l := j.line
	if l.joins() {
		req.Shows = j.deltas.take()
	} else {
		j.deltas.flush()
	}
	l.clean(req)
	r := &request{line: l, req: req, answered: make(chan struct{}), counted: true}
	if j.offers != nil && givesBack(req) {
		req.Takes, r.begins = j.offers()
	}
	l.window <- struct{}{} // room comes with an answer, or with the end of the attempt
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	if l.over || l.attempt.number != j.attempt {
		l.mu.Unlock()
		r.err = loop.ErrLost
		r.done()
		return r
	}
	l.seq++
	req.Seq = l.seq
	l.waiting = append(l.waiting, r)
	l.mu.Unlock()
	l.unsent = append(l.unsent, r)
	l.hasUnsent.Store(true)
	if !goesOn(req) {
		l.flush()
	}
	return r
}

// goesOn reports whether the attempt is about to say more, or to wait for the answer. What
// comes together is stored together.
func goesOn(req *pb.WorkRequest) bool { return req.GetAppend() != nil || req.GetSpawn() != nil }

// givesBack reports whether a request gives the run back, unless there is news for it.
func givesBack(req *pb.WorkRequest) bool {
	return req.GetPark() != nil || req.GetEnd() != nil || req.GetStopHooks() != nil
}

// flush sends what is unsent, or leaves it to the next stream. It needs the lock of what is
// sent.
func (l *line) flush() {
	l.mu.Lock()
	k, over := l.link, l.over
	l.mu.Unlock()
	for i, r := range l.unsent {
		r.req.More = i < len(l.unsent)-1
		if k != nil && !over && k.send(r.req) != nil {
			k.cancel()
		}
	}
	l.forgetUnsent()
}

func (l *line) forgetUnsent() {
	l.unsent = nil
	l.hasUnsent.Store(false)
}

// renumber has the next request be the first of an attempt, with that number. It needs the
// lock of what is sent.
func (l *line) renumber(first int64) {
	l.seq = first - 1
	l.forgetUnsent()
}

// delta shows a piece of the answer under way, if there is a stream for it.
func (j *journal) delta(d *pb.TextDelta) {
	l := j.line
	l.clean(d)
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	k := l.link
	if l.over || l.attempt.number != j.attempt {
		k = nil
	}
	l.mu.Unlock()
	if k != nil && k.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Delta{Delta: d}}) != nil {
		k.cancel()
	}
}

// clean takes the secrets out of what goes out.
func (l *line) clean(m proto.Message) {
	if !l.secrets.None() {
		wire.Clean(m, l.secrets)
	}
}

// oldest gives the oldest request its answer, or a piece of it; it is done when
// take says so.
func (l *line) oldest(take func(*request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return // an answer to an attempt that was dropped
	}
	r := l.waiting[0]
	if !take(r) {
		return
	}
	l.waiting = l.waiting[1:]
	switch k := r.response.GetKind().(type) {
	case *pb.WorkResponse_Parked, *pb.WorkResponse_Ended, *pb.WorkResponse_Refused:
		l.over = true
		switch given := r.response.GetGiven(); {
		case l.closed:
		case given != nil:
			l.beginGiven(r, given)
		case r.response.GetStandsBy():
			l.stands, l.stood = r, make(chan struct{})
		}
	case *pb.WorkResponse_Assignment:
		// A summary comes before messages that are older than it.
		begins := l.attempt.begins
		for i := range min(int(k.Assignment.GetHeldMessages()), len(begins)) {
			l.attempt.known = max(l.attempt.known, int32(begins[i].Ordinal))
		}
		for _, m := range r.chunks {
			l.attempt.known = max(l.attempt.known, m.GetOrdinal())
		}
	case *pb.WorkResponse_Ack:
		l.attempt.known = max(l.attempt.known, k.Ack.GetOrdinal(), k.Ack.GetBoundary().GetOrdinal())
	}
	r.done()
}

// lose ends the attempt on the line: nothing that is under way will be answered.
func (l *line) lose() { l.drops(nil) }

// drops is lose for an attempt that has ended without a word, and has given its slot another
// run if given is not nil.
func (l *line) drops(given *pb.GivenRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.waiting
	for _, r := range lost {
		r.err = loop.ErrLost
		r.done()
	}
	l.waiting, l.over = nil, true
	l.standsNoMore()
	if l.attempt.drop != nil {
		l.attempt.drop()
	}
	if n := len(lost); given != nil && n > 0 && !l.closed {
		l.beginGiven(lost[n-1], given)
	}
}

// done says that the request has its answer, or will have none, and gives its place back.
func (r *request) done() {
	close(r.answered)
	if r.counted {
		<-r.line.window
	}
}

func (r *request) wait(ctx context.Context) error {
	if l := r.line; l.hasUnsent.Load() {
		l.sending.Lock()
		l.flush()
		l.sending.Unlock()
	}
	select {
	case <-r.answered:
		return r.err
	case <-ctx.Done():
		return loop.ErrLost
	}
}

// over reports whether the request has its answer, or will have none.
func (r *request) over() bool {
	select {
	case <-r.answered:
		return true
	default:
		return false
	}
}

// within waits for the answer so long.
func (r *request) within(d time.Duration) {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-r.answered:
	case <-wait.C:
	}
}
