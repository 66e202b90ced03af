package orchestrator

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/alive"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// standby holds the slots that wait for a run without asking the dispatch stream for one:
// what becomes ready is claimed for them by the commit that makes it ready. They do so while
// this replica is the only one, since the hints of another one would find nobody. It is the
// store's [store.Standby]; a slot is either with it or with a committer.
type standby struct {
	slots *slotCounter

	mu             sync.Mutex
	waiting        []*standbySlot // who has waited for longest first
	withCommitters int            // with committers
	closed         bool           // nobody waits any more
}

// standbySlot is a slot that stands by. It does so once: until it has a run, or none.
type standbySlot struct {
	slot      *slot
	info      workerInfo
	worker    *alive.Worker
	takes     *pb.Takes
	dismissed bool // it is not to wait any more; guarded by standby.mu
}

func newStandby(c *slotCounter) *standby { return &standby{slots: c} }

// size is how many slots wait, or are about to have a run.
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

// Spare implements store.Standby.
func (b *standby) Spare() int {
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

// add lets a slot wait, and reports whether it does.
func (b *standby) add(s *standbySlot) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.waiting = append(b.waiting, s)
	}
	return !b.closed
}

// remove has a slot wait no longer, unless it is about to have a run: then it waits no longer
// if it gets none. It reports whether it waited.
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

// setOpen says whether slots may wait. If they may not, those that do wait no longer.
func (b *standby) setOpen(may bool) {
	b.mu.Lock()
	b.closed = !may
	b.mu.Unlock()
	if !may {
		b.dismiss(math.MaxInt)
	}
}

// dismiss has up to n slots wait no longer.
func (b *standby) dismiss(n int) {
	b.mu.Lock()
	n = min(n, len(b.waiting))
	relieved := b.waiting[:n]
	b.waiting = b.waiting[n:]
	b.mu.Unlock()
	for _, s := range relieved {
		s.finish(nil, nil)
	}
}

// giveBack takes in a slot that a committer has had, and that has got a run or not. It reports
// whether it waits again.
func (b *standby) giveBack(s *standbySlot, got bool) (waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.withCommitters--
	if waits = !got && !s.dismissed && !b.closed; waits {
		b.waiting = slices.Insert(b.waiting, 0, s)
	}
	return waits
}

// Offers implements store.Slot.
func (s *standbySlot) Offers() store.Offer {
	return store.Offer{Worker: s.info.id, Nonce: s.takes.GetNonce()}
}

// Given implements store.Slot. The run is held before anybody can hear that it was ended from
// outside.
func (s *standbySlot) Given(run *store.Given) {
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

// standbyEnd is what has become of a slot that has waited: a run, or none.
type standbyEnd struct {
	*standbySlot
	run   *store.Given
	lease *lease
}

// finish tells the slot's stream how its wait has ended. A wait ends once, and the next one
// begins only after the stream has looked, so this never waits.
func (s *standbySlot) finish(run *store.Given, lease *lease) {
	s.slot.standbyEnds <- standbyEnd{s, run, lease}
}

// tryStandBy lets a slot that has no run wait for the next one, and reports whether it does. It
// does not while the dispatch stream has more hints than others may come for.
func (l *slot) tryStandBy(takes *pb.Takes, by workerInfo, worker *alive.Worker) bool {
	if !takes.GetStandBy() || by.id == "" || !l.svc.registry.servesPool(l, l.svc.Pool) {
		return false
	}
	if !l.svc.backlog.idleSuffice(l.svc.pullingSlots() - 1) {
		return false
	}
	s := &standbySlot{slot: l, info: by, worker: worker, takes: takes}
	return l.state.ifOpen(func() bool { // so that whoever closes it has the slot stand down
		l.onStandby.Store(s) // first: it may have a run at once
		waits := l.svc.standby.add(s)
		if !waits {
			l.onStandby.Store(nil)
		}
		return waits
	})
}

// handleStandBy lets a slot wait that has no run, if it may: its worker reads no hints.
func (l *slot) handleStandBy(req *pb.WorkRequest) error {
	if l.state.currentLease() != nil || l.onStandby.Load() != nil || l.claiming.Load() {
		return tree.ErrBadInput.With("standing by while an attempt is on the stream, or may come")
	}
	l.identifyWorker(req)
	claim := req.GetStandBy()
	takes, by := &pb.Takes{Nonce: claim.GetNonce(), StandBy: true}, workerInfo{claim.GetWorkerId(), claim.GetFeatures()}
	if worker := l.state.currentWorker(); l.tryStandBy(takes, by, worker) {
		signal(l.svc.backlog.changed)
	} else {
		refused := &standbySlot{slot: l, info: by, worker: worker, takes: takes}
		l.onStandby.Store(refused) // until the stream has looked: the next offer comes after that
		refused.finish(nil, nil)
	}
	return nil
}

// standDown has the slot wait no longer, whether it is told so or its stream has ended.
func (l *slot) standDown() {
	if s := l.onStandby.Load(); s != nil && l.svc.standby.remove(s) {
		s.finish(nil, nil)
	}
}

// answerStandbyEnd is what the worker is told of a slot that has waited.
func (l *slot) answerStandbyEnd(ctx context.Context, down standbyEnd) []*pb.WorkResponse {
	l.onStandby.CompareAndSwap(down.standbySlot, nil)
	answer := &pb.WorkResponse{Kind: &pb.WorkResponse_StoodDown{StoodDown: &pb.StoodDown{}}}
	if down.run == nil {
		return []*pb.WorkResponse{answer}
	}
	if l.state.currentLease() != down.lease {
		return nil // it was ended from outside, and the worker has been told
	}
	return l.appendRun(ctx, answer, down.lease, down.run.Claimed, down.run.AtHand, down.takes)
}

// dismissForOverdue sends slots that wait to the dispatch stream, for what is on it and nobody has come for
// in time. It reports whether more may be needed soon.
func (s *Service) dismissForOverdue(now time.Time) (unsure bool) {
	if !s.standby.hasWaiting() {
		return false
	}
	late, coming := s.backlog.overdue(now)
	s.standby.dismiss(late)
	return coming > 0
}

// assignBacklog has slots that wait claim what is kept, as long as there are both. What can't be
// claimed is announced again when its announcement has run out.
func (s *Service) assignBacklog(ctx context.Context) {
	for s.standby.hasWaiting() {
		run, any := s.backlog.takeFirst()
		if !any {
			return
		}
		to := s.standby.Take()
		if to == nil {
			s.backlog.putBack(run)
			return
		}
		claim, err := s.Store.ClaimFor(ctx, store.Announced{Session: run.Session, Task: run.Task, Epoch: run.Epoch}, to)
		if err != nil {
			to.Given(nil)
			return
		}
		s.serving.Go(func() {
			_, err := claim.Wait(context.WithoutCancel(ctx))
			if err != nil {
				to.Given(nil)
			}
			if err != nil && ctx.Err() == nil {
				s.claimRefused(ctx, run.Hint, err)
			}
		})
	}
}

var _ store.Standby = (*standby)(nil)
var _ store.Slot = (*standbySlot)(nil)
