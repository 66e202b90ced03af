package orchestrator

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/alive"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// standby holds the slots that wait for a run without reading hints: the commit that makes a run
// ready claims it for one of them. Slots stand by only while this replica is the only one, or while
// Redis is away, because runs that another replica makes ready could not reach them. It implements
// [store.Standby]. A slot is either in waiting or with a committer.
type standby struct {
	slots *slotCounter

	mu             sync.Mutex
	waiting        []*standbySlot // the slot that has waited for longest first
	withCommitters int            // how many slots committers have taken
	closed         bool           // slots may not stand by
}

// standbySlot is a slot that stands by, once: until it has a run, or is dismissed.
type standbySlot struct {
	slot      *slot
	info      workerInfo
	worker    *alive.Worker
	takes     *pb.Takes
	deaf      bool // the slot's worker reads no hints, so the slot waits also while hints do
	dismissed bool // the slot must not wait any more; guarded by standby.mu
}

func newStandby(c *slotCounter) *standby { return &standby{slots: c} }

// size returns how many slots wait or are with a committer.
func (b *standby) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + b.withCommitters
}

func (b *standby) hasWaiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// IdleSlots implements store.Standby.
func (b *standby) IdleSlots() int {
	if !b.hasWaiting() {
		return -1
	}
	return b.slots.idle() - 1
}

// Take implements store.Standby.
func (b *standby) Take() store.Slot {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	first := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.withCommitters++
	return first
}

// add makes a slot wait, and reports false if slots may not stand by.
func (b *standby) add(s *standbySlot) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.waiting = append(b.waiting, s)
	}
	return !b.closed
}

// remove dismisses a slot, and reports whether it was waiting. A slot that is with a committer
// keeps the run it may get; if it gets none, it does not wait again.
func (b *standby) remove(s *standbySlot) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.dismissed = true
	i := slices.Index(b.waiting, s)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

// setOpen says whether slots may stand by. If they may not, it dismisses those that wait.
func (b *standby) setOpen(open bool) {
	b.mu.Lock()
	var dismissed []*standbySlot
	if b.closed = !open; b.closed {
		dismissed, b.waiting = b.waiting, nil
	}
	b.mu.Unlock()
	for _, s := range dismissed {
		s.finish(nil, nil)
	}
}

// dismiss dismisses up to n waiting slots whose workers read hints.
func (b *standby) dismiss(n int) {
	var dismissed []*standbySlot
	b.mu.Lock()
	b.waiting = slices.DeleteFunc(b.waiting, func(s *standbySlot) bool {
		goes := len(dismissed) < n && !s.deaf
		if goes {
			dismissed = append(dismissed, s)
		}
		return goes
	})
	b.mu.Unlock()
	for _, s := range dismissed {
		s.finish(nil, nil)
	}
}

// giveBack returns a slot from a committer. hasRun says whether it got a run. It reports whether
// the slot waits again, as the first.
func (b *standby) giveBack(s *standbySlot, hasRun bool) (waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.withCommitters--
	if waits = !hasRun && !s.dismissed && !b.closed; waits {
		b.waiting = slices.Insert(b.waiting, 0, s)
	}
	return waits
}

// Offer implements store.Slot.
func (s *standbySlot) Offer() store.Offer {
	return store.Offer{Worker: s.info.id, Nonce: s.takes.GetNonce(), Local: s.slot.local}
}

// Assign implements store.Slot. It puts the run on the stream at once, so that the stream hears of
// it if the attempt is revoked.
func (s *standbySlot) Assign(run *store.Assignment) {
	l := s.slot
	waits := l.svc.standby.giveBack(s, run != nil)
	switch {
	case waits:
		signal(l.svc.backlog.changed)
	case run == nil:
		s.finish(nil, nil)
	default:
		l.svc.claimRate.add(l.svc.Now())
		l.svc.announceMore()
		lease := newLease(&run.Task, run.Tenant, s.info)
		if l.hold(lease, nil) {
			s.finish(run, lease)
			return
		}
		l.svc.serving.Go(func() {
			l.svc.handleLateGrant(lease, nil, s.worker, s.info.Has(wire.FeatureGiven) && !l.endedCleanly.Load())
		})
	}
}

// standbyEnd is the outcome of a standby: a run, or none.
type standbyEnd struct {
	*standbySlot
	run   *store.Assignment
	lease *lease
}

// finish tells the slot's stream how its standby ended. It never blocks: a standby ends once, and
// the next one begins only after the stream has received this outcome.
func (s *standbySlot) finish(run *store.Assignment, lease *lease) {
	s.slot.standbyEnds <- standbyEnd{s, run, lease}
}

// tryStandBy makes a slot without a run stand by after the end of its last one, and reports whether
// it does. It does not if the other idle slots are too few for the hints on the dispatch stream.
func (l *slot) tryStandBy(takes *pb.Takes, info workerInfo, worker *alive.Worker) bool {
	return takes.GetStandBy() && l.svc.backlog.idleSuffice(l.svc.pullingSlots()-1) &&
		(&standbySlot{slot: l, info: info, worker: worker, takes: takes}).begin()
}

// begin makes the slot stand by, and reports false if it may not.
func (s *standbySlot) begin() bool {
	l := s.slot
	if s.info.id == "" || !l.svc.registry.servesPool(l, l.svc.Pool) {
		return false
	}
	return l.state.ifOpen(func() bool { // under the lock, so that the call that closes the state also ends the standby
		// Before add, because the slot may get a run at once. The outcome of an earlier standby may still
		// be on its way to the stream, which has room for one.
		if !l.onStandby.CompareAndSwap(nil, s) {
			return false
		}
		waits := l.svc.standby.add(s)
		if !waits {
			l.onStandby.Store(nil)
		}
		return waits
	})
}

// handleStandBy makes a slot without a run stand by at the request of its worker, which reads no
// hints. If the slot may not, it is told that its standby ended. The run of a hint that nobody reads
// is given to the slot once its announcement expires.
func (l *slot) handleStandBy(req *pb.WorkRequest) error {
	if l.state.currentLease() != nil || l.onStandby.Load() != nil || l.claiming.Load() {
		return errMayNotStandBy
	}
	l.identifyWorker(req)
	claim := req.GetStandBy()
	takes, info := &pb.Takes{Nonce: claim.GetNonce(), StandBy: true}, workerInfo{claim.GetWorkerId(), claim.GetFeatures()}
	s := &standbySlot{slot: l, info: info, worker: l.state.currentWorker(), takes: takes, deaf: true}
	if s.begin() {
		signal(l.svc.backlog.changed)
		return nil
	}
	if !l.onStandby.CompareAndSwap(nil, s) { // until the stream has received the outcome; the next request comes after that
		return errMayNotStandBy
	}
	s.finish(nil, nil)
	return nil
}

var errMayNotStandBy = tree.ErrBadInput.With("the slot cannot stand by while its stream has an attempt or may get one")

// standDown ends the slot's standby: its worker asked for it, or its stream ended.
func (l *slot) standDown() {
	if s := l.onStandby.Load(); s != nil && l.svc.standby.remove(s) {
		s.finish(nil, nil)
	}
}

// answerStandbyEnd returns what the worker is told when a standby ended.
func (l *slot) answerStandbyEnd(ctx context.Context, end standbyEnd) []*pb.WorkResponse {
	l.onStandby.CompareAndSwap(end.standbySlot, nil)
	answer := &pb.WorkResponse{Kind: &pb.WorkResponse_StoodDown{StoodDown: &pb.StoodDown{}}}
	if end.run == nil {
		return []*pb.WorkResponse{answer}
	}
	if l.state.currentLease() != end.lease {
		return nil // the attempt was revoked, and the worker has been told
	}
	return l.appendRun(ctx, answer, end.lease, end.run.Claimed, end.run.CachedConversation, end.takes)
}

// dismissForOverdue dismisses as many waiting slots as there are overdue hints on the dispatch
// stream, so that their workers read those. It reports whether hints may become overdue soon.
func (s *Service) dismissForOverdue(now time.Time) (lookAgain bool) {
	if !s.standby.hasWaiting() {
		return false
	}
	overdue, recent := s.backlog.overdue(now)
	if overdue > 0 {
		s.standby.dismiss(overdue)
	}
	return recent > 0
}

// assignBacklog lets waiting slots claim runs of the backlog, as long as there are both. A run that
// can't be claimed is announced again when its announcement expires.
func (s *Service) assignBacklog(ctx context.Context) {
	for s.standby.hasWaiting() {
		run, found := s.backlog.takeFirst()
		if !found {
			return
		}
		slot := s.standby.Take()
		if slot == nil {
			s.backlog.putBack(run)
			return
		}
		claim, err := s.Store.ClaimFor(ctx, store.Announced{Session: run.Session, Task: run.Task, Epoch: run.Epoch}, slot)
		if err != nil {
			slot.Assign(nil)
			return
		}
		s.serving.Go(func() {
			_, err := claim.Wait(context.WithoutCancel(ctx))
			if err != nil {
				slot.Assign(nil)
			}
			if err != nil && ctx.Err() == nil {
				s.claimRefused(ctx, run.Hint, err)
			}
		})
	}
}

var _ store.Standby = (*standby)(nil)
var _ store.Slot = (*standbySlot)(nil)
