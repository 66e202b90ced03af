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
//  1. The transaction that stores that it gives its run back claims a run of the backlog for it,
//     if both sessions have the same committer (drawFor), or otherwise
//  2. what the request has made ready, if nobody has to wait longer for that
//     (store/taking.go).
//  3. The answer brings it a run of the backlog that was claimed after that (claimKept).
//  4. It stands by, and the commit that makes a run ready claims it for it (store/standby.go).
//  5. It stands by, and gets a run of the backlog (giveKept).
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
	if offered := a.req.GetTakes(); offered != nil && lease.worker.id != "" {
		a.next = l.svc.backlog.takeIf(time.Now(), l.svc.pullingSlots(), func(other tree.SessionID) bool { return l.svc.Store.Together(other, lease.session) })
		offer = &store.Offer{
			Worker: lease.worker.id, Nonce: offered.GetNonce(), Spare: l.svc.slots.idle(),
			Next: store.Announced{Session: a.next.Session, Task: a.next.Task, Epoch: a.next.Epoch},
		}
		a.mayGrant, a.offeredBy = true, lease.worker
		if a.next.Task.IsZero() {
			a.expected = l.svc.leases.expectAny(lease.session)
		} else {
			a.expected = l.svc.leases.expect(a.next.Task, a.next.Epoch)
		}
	}
	a.pending = l.svc.Store.Prepare(lease.session, cmd, offer)
	l.unqueued = append(l.unqueued, a.pending)
}

// finish ends what was expected of a request. What its slot was to have and has not got goes
// to others.
func (a *exchange) finish(s *Service) {
	s.backlog.putBack(a.next)
	s.leases.settle(a.expected)
}

// queue queues what was prepared.
func (l *slot) queue() error {
	err := l.svc.Store.Queue(l.stream.Context(), l.unqueued...)
	l.unqueued = nil
	return err
}

// nextRun adds to the answer that gives a run back the one that the slot has got in its
// place, if it has got one.
func (l *slot) nextRun(ctx context.Context, a *exchange, last *lease, answer *pb.WorkResponse) []*pb.WorkResponse {
	answers := []*pb.WorkResponse{answer}
	a.mayGrant = false
	granted, known := l.runTakenWith(ctx, a), last.worker.Has(wire.FeatureGiven)
	if granted == nil {
		var done func()
		granted, done = l.claimFromBacklog(ctx, a, last)
		defer done()
		known = false // the worker may have asked before, over another stream
	}
	if granted == nil {
		answer.StandsBy = l.tryStandBy(a.req.GetTakes(), last.worker, a.worker)
		signal(l.svc.backlog.changed) // the slot is idle
		return answers
	}
	l.svc.claimRate.add(l.svc.Now())
	l.svc.announceMore()
	held := l.holdGranted(a, granted, last.worker, known)
	if held == nil {
		return answers
	}
	return l.appendRun(ctx, answer, held, granted, a.pending.AtHand(), a.req.GetTakes())
}

// appendRun is an answer to a slot, with the run that it has got without asking for that one.
func (l *slot) appendRun(ctx context.Context, answer *pb.WorkResponse, held *lease, run *tree.Claimed, known store.AtHand, takes *pb.Takes) []*pb.WorkResponse {
	t := &run.Task
	var has *pb.TranscriptHeld
	if takes.GetHeldTaskId() == t.ID.String() {
		has = takes.GetHeld()
	}
	assignment, err := l.loadAssignment(ctx, held, run, known, has)
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

// runTakenWith gives the run that a slot has got in the transaction which has given its own back,
// if it has got one.
func (l *slot) runTakenWith(ctx context.Context, a *exchange) *tree.Claimed {
	granted, refused := a.pending.Taken()
	if refused != nil {
		l.svc.claimRefused(ctx, a.next.Hint, refused)
	}
	if granted != nil || refused != nil {
		a.next = queuedRun{}
	}
	return granted
}

// claimFromBacklog claims the first run of the backlog that the slot can have, if there is one. done
// has to be called when it is on the stream.
func (l *slot) claimFromBacklog(ctx context.Context, a *exchange, last *lease) (granted *tree.Claimed, done func()) {
	takes := a.req.GetTakes()
	for takes != nil && last.worker.id != "" && ctx.Err() == nil {
		next, any := l.svc.backlog.take(time.Now(), l.svc.pullingSlots()-1)
		if !any {
			break
		}
		l.svc.leases.settle(a.expected)
		a.expected = l.svc.leases.expect(next.Task, next.Epoch)
		a.pending = l.svc.Store.Prepare(next.Session, tree.Claim{
			Task: next.Task, Token: tree.Token{Epoch: next.Epoch, Nonce: takes.GetNonce()}, Worker: last.worker.id,
		}, nil)
		answer, err := l.settle(ctx, a.pending)
		if claimed, ok := answer.(*tree.Claimed); ok {
			return claimed, l.svc.backlog.takeDone
		}
		l.svc.backlog.takeDone()
		l.svc.announceMore()
		if ctx.Err() != nil {
			l.svc.backlog.putBack(next)
			break
		}
		if !l.svc.claimRefused(ctx, next.Hint, err) {
			break
		}
	}
	return nil, func() {}
}

// claimRefused sees to a run that the slot could not have, and reports whether it may have another
// one.
func (s *Service) claimRefused(ctx context.Context, run dispatch.Hint, err error) (others bool) {
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

// findGivenRun finds the run that a slot was given with an end of which its worker has not heard.
func (l *slot) findGivenRun(ctx context.Context, again *pb.Reattach) (*pb.GivenRun, error) {
	if again.GetTakesNonce() == 0 {
		return nil, nil
	}
	given, err := l.svc.Store.AttemptsBy(ctx, again.GetWorkerId(), again.GetTakesNonce())
	if err != nil || len(given) == 0 {
		return nil, err
	}
	run := &given[0]
	return &pb.GivenRun{SessionId: run.Session.String(), TaskId: run.Task.String(), Epoch: run.Epoch}, nil
}
