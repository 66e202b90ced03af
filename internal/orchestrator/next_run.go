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
//  1. The transaction that gives the slot's run back also claims a run of the backlog for it, if
//     both sessions have the same committer (takeIf).
//  2. Otherwise that transaction claims a run that the request itself made ready, unless another
//     run would have to wait longer because of that (store/claim_next.go).
//  3. The answer carries a run of the backlog that was claimed after that transaction
//     (claimFromBacklog).
//  4. The slot stands by, and the commit that makes a run ready claims it for the slot
//     (store/standby.go).
//  5. The slot stands by, and gets a run of the backlog (assignBacklog). A slot whose worker does
//     not reach Redis gets runs this way too (handleStandBy).
//  6. The slot is idle: its worker reads a hint from the dispatch stream and claims the run.
//  7. The stream broke before the slot heard of a run that it got in one of the ways 1 to 5: its
//     worker asks for that run when it reattaches (findGivenRun).
//
// Ways 1 to 3 require that the worker offers its slot with the request. Ways 1 and 3 also require
// that no hint on the dispatch stream has waited for long (mayTake). Ways 4 and 5 require that the
// worker offers to stand by, that the other idle slots suffice for the hints on the stream
// (tryStandBy), and that this replica is the only one. With several replicas, slots stand by only
// while neither their worker nor this replica reaches Redis (openStandby).

// prepare prepares a request of the attempt on the stream. If the worker offers its slot, and the
// request gives its run back, the same transaction may claim another run for the slot.
func (l *slot) prepare(a *exchange, lease *lease, cmd tree.Command) {
	var offer *store.Offer
	if takes := l.offered(a.req, lease.worker); takes != nil {
		a.replacement = l.svc.backlog.takeIf(time.Now(), l.svc.pullingSlots(), func(other tree.SessionID) bool { return l.svc.Store.SameCommitter(other, lease.session) })
		offer = &store.Offer{
			Worker: lease.worker.id, Nonce: takes.GetNonce(), Local: l.local, IdleSlots: l.svc.slots.idle(),
			Next: store.Announced{Session: a.replacement.Session, Task: a.replacement.Task, Epoch: a.replacement.Epoch},
		}
		a.mayGrant, a.offeredBy = true, lease.worker
		if a.replacement.Task.IsZero() {
			a.expected = l.svc.leases.expectAny(lease.session)
		} else {
			a.expected = l.svc.leases.expect(a.replacement.Task, a.replacement.Epoch)
		}
	}
	a.pending = l.svc.Store.Prepare(lease.session, cmd, offer)
	l.unqueued = append(l.unqueued, a.pending)
}

// offered returns the slot that a request offers; nil if it offers none, or if this replica claims
// no runs.
func (l *slot) offered(req *pb.WorkRequest, worker workerInfo) *pb.Takes {
	if worker.id == "" || l.svc.isSilent() {
		return nil
	}
	return req.GetTakes()
}

// finish ends what was expected of the request. A run that was meant for the slot and that it did
// not get goes back to the backlog.
func (a *exchange) finish(s *Service) {
	s.backlog.putBack(a.replacement)
	s.leases.settle(a.expected)
}

// queue queues the prepared requests.
func (l *slot) queue() error {
	err := l.svc.Store.Queue(l.stream.Context(), l.unqueued...)
	l.unqueued = nil
	return err
}

// answerWithNextRun adds the slot's next run, if it got one, to the answer that gives its last run
// back.
func (l *slot) answerWithNextRun(ctx context.Context, a *exchange, last *lease, answer *pb.WorkResponse) []*pb.WorkResponse {
	answers := []*pb.WorkResponse{answer}
	a.mayGrant = false
	granted, known := l.claimedInRequest(ctx, a), last.worker.Has(wire.FeatureGiven)
	if granted == nil {
		var done func()
		granted, done = l.claimFromBacklog(ctx, a, last)
		defer done()
		known = false // the worker may have asked for its run before, over another stream
	}
	if granted == nil {
		// With other replicas only a slot that can't read hints stands by, and it asks for that itself.
		answer.StandsBy = !l.svc.hasOthers.Load() && l.tryStandBy(a.req.GetTakes(), last.worker, a.worker)
		signal(l.svc.backlog.changed) // the slot is idle
		return answers
	}
	l.svc.claimRate.add(l.svc.Now())
	l.svc.announceMore()
	held := l.holdGranted(a, granted, last.worker, known)
	if held == nil {
		return answers
	}
	return l.appendRun(ctx, answer, held, granted, a.pending.CachedConversation(), a.req.GetTakes())
}

// appendRun returns the answer followed by the assignment of a run that the slot got without a
// claim.
func (l *slot) appendRun(ctx context.Context, answer *pb.WorkResponse, held *lease, run *tree.Claimed, known store.CachedConversation, takes *pb.Takes) []*pb.WorkResponse {
	t := &run.Task
	var has *pb.TranscriptHeld
	if takes.GetHeldTaskId() == t.ID.String() {
		has = takes.GetHeld()
	}
	assignment, err := l.loadAssignment(ctx, held, run, known, has)
	if err != nil {
		if ctx.Err() == nil { // otherwise the end of the stream handles the attempt
			l.svc.Logger.WarnContext(ctx, "handing a run to its slot failed", "task_id", t.ID, "error", err)
			l.abandon(isLasting(err))
		}
		return []*pb.WorkResponse{answer}
	}
	answer.Given = &pb.GivenRun{SessionId: t.Session.String(), TaskId: t.ID.String(), Epoch: t.Epoch}
	return append([]*pb.WorkResponse{answer}, assignment...)
}

// claimedInRequest returns the run that the slot got in the transaction that gave its last run
// back; nil if it got none.
func (l *slot) claimedInRequest(ctx context.Context, a *exchange) *tree.Claimed {
	granted, refused := a.pending.NextRun()
	if refused != nil {
		l.svc.claimRefused(ctx, a.replacement.Hint, refused)
	}
	if granted != nil || refused != nil {
		a.replacement = queuedRun{}
	}
	return granted
}

// claimFromBacklog claims the first run of the backlog that the slot can have; nil if there is
// none. The caller calls done once the run is on the stream.
func (l *slot) claimFromBacklog(ctx context.Context, a *exchange, last *lease) (granted *tree.Claimed, done func()) {
	takes := l.offered(a.req, last.worker)
	for takes != nil && ctx.Err() == nil {
		run, found := l.svc.backlog.take(time.Now(), l.svc.pullingSlots()-1)
		if !found {
			break
		}
		l.svc.leases.settle(a.expected)
		a.expected = l.svc.leases.expect(run.Task, run.Epoch)
		a.pending = l.svc.Store.Prepare(run.Session, tree.Claim{
			Task: run.Task, Token: tree.Token{Epoch: run.Epoch, Nonce: takes.GetNonce()}, Worker: last.worker.id,
		}, nil)
		answer, err := l.settle(ctx, a.pending)
		if claimed, ok := answer.(*tree.Claimed); ok {
			return claimed, l.svc.backlog.takeDone
		}
		l.svc.backlog.takeDone()
		l.svc.announceMore()
		if ctx.Err() != nil {
			l.svc.backlog.putBack(run)
			break
		}
		if !l.svc.claimRefused(ctx, run.Hint, err) {
			break
		}
	}
	return nil, func() {}
}

// claimRefused handles a run that the slot could not have, and reports whether it may try another
// one.
func (s *Service) claimRefused(ctx context.Context, run dispatch.Hint, err error) (others bool) {
	switch {
	case errors.Is(err, tree.ErrCapped):
		err = s.releaseReady(ctx, run.Session, run.Task, run.Epoch)
	case tree.CodeOf(err) == tree.CodeStale || tree.CodeOf(err) == tree.CodeNotFound:
		return true // another worker has it, or it is over
	}
	if err != nil {
		s.Logger.WarnContext(ctx, "handing a run to a slot failed", "task_id", run.Task, "error", err)
	}
	return err == nil
}

// settle waits for a command even if the stream ends, because a run that it grants has to be handed
// over then.
func (l *slot) settle(ctx context.Context, p *store.Pending) (tree.Answer, error) {
	if err := l.svc.Store.Queue(ctx, p); err != nil {
		return nil, err
	}
	return p.Wait(context.WithoutCancel(ctx))
}

// findGivenRun finds a run that a slot was given together with the end of its last run, and that
// its worker has not heard of.
func (l *slot) findGivenRun(ctx context.Context, reattach *pb.Reattach) (*pb.GivenRun, error) {
	if reattach.GetTakesNonce() == 0 {
		return nil, nil
	}
	given, err := l.svc.Store.AttemptsByNonce(ctx, reattach.GetWorkerId(), reattach.GetTakesNonce())
	if err != nil || len(given) == 0 {
		return nil, err
	}
	run := &given[0]
	return &pb.GivenRun{SessionId: run.Session.String(), TaskId: run.Task.String(), Epoch: run.Epoch}, nil
}
