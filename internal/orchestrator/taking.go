package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// prepare makes a request of the attempt on the stream ready to be queued. A worker that
// offers to takes another run if the request gives its own back.
func (l *slot) prepare(a *asked, lease *lease, cmd tree.Command) {
	var takes *store.Takes
	if offered := a.req.GetTakes(); offered != nil && lease.by.worker != "" {
		takes = &store.Takes{Worker: lease.by.worker, Nonce: offered.GetNonce(), Spare: l.leases.idle()}
		a.open, a.expected = true, l.leases.expectAny(lease.session)
	}
	a.pending = l.Store.Prepare(lease.session, cmd, takes)
	l.prepared = append(l.prepared, a.pending)
}

// queue queues what was prepared.
func (l *slot) queue() error {
	err := l.Store.Queue(l.stream.Context(), l.prepared...)
	l.prepared = nil
	return err
}

// taken adds to the answer that gives a run back the one that the slot has got in its
// place, if it has got one.
func (l *slot) taken(ctx context.Context, a *asked, last *lease, answer *pb.WorkResponse) []*pb.WorkResponse {
	answers := []*pb.WorkResponse{answer}
	a.open = false
	granted := a.pending.Taken()
	if granted == nil {
		return answers
	}
	l.claims.add(l.Now())
	l.lookForMore()
	t := &granted.Task
	var has *pb.TranscriptHeld
	if takes := a.req.GetTakes(); takes.GetHeldTaskId() == t.ID.String() {
		has = takes.GetHeld()
	}
	assignment, err := l.grant(ctx, a, granted, last.by, has)
	if err != nil {
		l.Logger.WarnContext(ctx, "a run was not given to the slot that has become free", "task_id", t.ID, "error", err)
		l.abandon(false)
	}
	if err != nil || assignment == nil {
		return answers
	}
	answer.Given = &pb.GivenRun{SessionId: t.Session.String(), TaskId: t.ID.String(), Epoch: t.Epoch}
	return append(answers, assignment...)
}

// leftOver sees to an attempt that a request has been granted while its stream broke. A
// worker that has asked for it may come back for it, unless it is dead; one that has offered
// its slot does not know of it.
func (l *slot) leftOver(a *asked) {
	if !a.open || a.err != nil {
		return
	}
	answer, err := a.pending.Wait(context.Background())
	if err != nil {
		return // nothing was granted
	}
	switch granted := answer.(type) {
	case tree.Claimed:
		claim := a.req.GetClaim()
		lease := leaseOf(&granted, carrier{claim.GetWorkerId(), claim.GetFeatures()})
		l.leases.add(lease, a.expected, make(chan struct{}, 1))
		l.waitFor(a.worker, lease)
	default:
		if taken := a.pending.Taken(); taken != nil {
			l.handOver(leaseOf(taken, carrier{}), false)
		}
	}
}
