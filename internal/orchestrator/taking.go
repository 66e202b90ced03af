package orchestrator

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// How a slot gets its next run:
//
//  1. The transaction that stores that it gives its run back claims a run of the stock for it,
//     if both sessions have the same committer (drawFor), or otherwise
//  2. what the request has made ready, if nobody has to wait longer for that
//     (store/taking.go).
//  3. The answer brings it a run of the stock that was claimed after that (claimKept).
//  4. It stands by, and the commit that makes a run ready claims it for it (store/standby.go).
//  5. It stands by, and gets a run of the stock (giveKept).
//     So does one whose worker does not reach Redis (slot.standBy).
//  6. It is idle: its worker reads a hint on the dispatch stream and claims the run.
//  7. Its stream broke before it heard of what it has got in one of the ways 1 to 5: its worker
//     asks for that when it reattaches (givenTo).
//
// For 1 to 3 the worker has to offer its slot with the request, and for 1 and 3 no hint on the
// dispatch stream may have waited for long (mayDraw). For 4 and 5 it has to offer to stand by,
// this replica has to be the only one, and the other idle slots have to be enough for the hints
// that there are (standsBy).

// prepare makes a request of the attempt on the stream ready to be queued. A worker that
// offers to takes another run if the request gives its own back.
func (l *slot) prepare(a *exchange, lease *lease, cmd tree.Command) {
	var offer *store.Offer
	if offered := a.req.GetTakes(); offered != nil && lease.by.worker != "" {
		a.next = l.svc.stock.drawFor(time.Now(), l.svc.pulling(), func(other tree.SessionID) bool { return l.svc.Store.SameCommitter(other, lease.session) })
		offer = &store.Offer{
			Worker: lease.by.worker, Nonce: offered.GetNonce(), IdleSlots: l.svc.census.idle(),
			Next: store.Announced{Session: a.next.Session, Task: a.next.Task, Epoch: a.next.Epoch},
		}
		a.mayGrant, a.offeredBy = true, lease.by
		if a.next.Task.IsZero() {
			a.expected = l.svc.leases.expectAny(lease.session)
		} else {
			a.expected = l.svc.leases.expect(a.next.Task, a.next.Epoch)
		}
	}
	a.pending = l.svc.Store.Prepare(lease.session, cmd, offer)
	l.prepared = append(l.prepared, a.pending)
}

// conclude ends what was expected of a request. What its slot was to have and has not got goes
// to others.
func (a *exchange) conclude(s *Service) {
	s.stock.back(a.next)
	s.leases.settled(a.expected)
}

// queue queues what was prepared.
func (l *slot) queue() error {
	err := l.svc.Store.Queue(l.stream.Context(), l.prepared...)
	l.prepared = nil
	return err
}

// nextRun adds to the answer that gives a run back the one that the slot has got in its
// place, if it has got one.
func (l *slot) nextRun(ctx context.Context, a *exchange, last *lease, answer *pb.WorkResponse) []*pb.WorkResponse {
	answers := []*pb.WorkResponse{answer}
	a.mayGrant = false
	granted, known := l.takenWith(ctx, a), last.by.Has(wire.FeatureGiven)
	if granted == nil {
		var done func()
		granted, done = l.claimKept(ctx, a, last)
		defer done()
		known = false // the worker may have asked before, over another stream
	}
	if granted == nil {
		answer.StandsBy = l.standsBy(a.req.GetTakes(), last.by, a.worker)
		poke(l.svc.stock.some) // the slot is idle
		return answers
	}
	l.svc.claims.add(l.svc.Now())
	l.svc.lookForMore()
	held := l.granted(a, granted, last.by, known)
	if held == nil {
		return answers
	}
	return l.withRun(ctx, answer, held, granted, a.pending.CachedConversation(), a.req.GetTakes())
}

// withRun is an answer to a slot, with the run that it has got without asking for that one.
func (l *slot) withRun(ctx context.Context, answer *pb.WorkResponse, held *lease, run *tree.Claimed, known store.CachedConversation, takes *pb.Takes) []*pb.WorkResponse {
	t := &run.Task
	var has *pb.TranscriptHeld
	if takes.GetHeldTaskId() == t.ID.String() {
		has = takes.GetHeld()
	}
	assignment, err := l.assigned(ctx, held, run, known, has)
	if err != nil {
		if ctx.Err() == nil { // otherwise it is left as the stream ends
			l.svc.Logger.WarnContext(ctx, "a run was not given to the slot that it was for", "task_id", t.ID, "error", err)
			l.abandon(false)
		}
		return []*pb.WorkResponse{answer}
	}
	answer.Given = &pb.GivenRun{SessionId: t.Session.String(), TaskId: t.ID.String(), Epoch: t.Epoch}
	return append([]*pb.WorkResponse{answer}, assignment...)
}

// takenWith gives the run that a slot has got in the transaction which has given its own back,
// if it has got one.
func (l *slot) takenWith(ctx context.Context, a *exchange) *tree.Claimed {
	granted, refused := a.pending.NextRun()
	if refused != nil {
		l.svc.notTaken(ctx, a.next.Hint, refused)
	}
	if granted != nil || refused != nil {
		a.next = waitingRun{}
	}
	return granted
}

// claimKept claims the first run of the stock that the slot can have, if there is one. done
// has to be called when it is on the stream.
func (l *slot) claimKept(ctx context.Context, a *exchange, last *lease) (granted *tree.Claimed, done func()) {
	takes := a.req.GetTakes()
	for takes != nil && last.by.worker != "" && ctx.Err() == nil {
		next, any := l.svc.stock.draw(time.Now(), l.svc.pulling()-1)
		if !any {
			break
		}
		l.svc.leases.settled(a.expected)
		a.expected = l.svc.leases.expect(next.Task, next.Epoch)
		a.pending = l.svc.Store.Prepare(next.Session, tree.Claim{
			Task: next.Task, Token: tree.Token{Epoch: next.Epoch, Nonce: takes.GetNonce()}, Worker: last.by.worker,
		}, nil)
		answer, err := l.settle(ctx, a.pending)
		if claimed, ok := answer.(*tree.Claimed); ok {
			return claimed, l.svc.stock.drawn
		}
		l.svc.stock.drawn()
		l.svc.lookForMore()
		if ctx.Err() != nil {
			l.svc.stock.back(next)
			break
		}
		if !l.svc.notTaken(ctx, next.Hint, err) {
			break
		}
	}
	return nil, func() {}
}

// notTaken sees to a run that the slot could not have, and reports whether it may have another
// one.
func (s *Service) notTaken(ctx context.Context, run dispatch.Hint, err error) (others bool) {
	switch {
	case errors.Is(err, tree.ErrCapped):
		err = s.releaseReady(ctx, run.Session, run.Task, run.Epoch)
	case tree.CodeOf(err) == tree.CodeStale || tree.CodeOf(err) == tree.CodeNotFound:
		return true // somebody else has it, or it is over
	}
	if err != nil {
		s.Logger.WarnContext(ctx, "a run was not given to a slot", "task_id", run.Task, "error", err)
	}
	return err == nil
}

// settle waits for a command even if the stream ends: what it is granted is handed over then.
func (l *slot) settle(ctx context.Context, p *store.Pending) (tree.Answer, error) {
	if err := l.svc.Store.Queue(ctx, p); err != nil {
		return nil, err
	}
	return p.Wait(context.WithoutCancel(ctx))
}

// givenTo finds the run that a slot was given with an end of which its worker has not heard.
func (l *slot) givenTo(ctx context.Context, again *pb.Reattach) (*pb.GivenRun, error) {
	if again.GetTakesNonce() == 0 {
		return nil, nil
	}
	given, err := l.svc.Store.AttemptsByNonce(ctx, again.GetWorkerId(), again.GetTakesNonce())
	if err != nil || len(given) == 0 {
		return nil, err
	}
	run := &given[0]
	return &pb.GivenRun{SessionId: run.Session.String(), TaskId: run.Task.String(), Epoch: run.Epoch}, nil
}
