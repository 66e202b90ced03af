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
	census *census

	mu      sync.Mutex
	waiting []*standbySlot // who has waited for longest first
	taken   int            // with committers
	closed  bool           // nobody waits any more
}

// standbySlot is a slot that stands by. It does so once: until it has a run, or none.
type standbySlot struct {
	slot      *slot
	by        carrier
	worker    *alive.Worker
	takes     *pb.Takes
	dismissed bool // it is not to wait any more; guarded by standby.mu
}

func newStandby(c *census) *standby { return &standby{census: c} }

// size is how many slots wait, or are about to have a run.
func (b *standby) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + b.taken
}

func (b *standby) any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// IdleSlots implements store.Standby.
func (b *standby) IdleSlots() int {
	if !b.any() {
		return -1
	}
	return b.census.idle() - 1
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
	b.taken++
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

// end has a slot wait no longer, unless it is about to have a run: then it waits no longer
// if it gets none. It reports whether it waited.
func (b *standby) end(s *standbySlot) bool {
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

// open says whether slots may wait. If they may not, those that do wait no longer.
func (b *standby) open(may bool) {
	b.mu.Lock()
	b.closed = !may
	b.mu.Unlock()
	if !may {
		b.relieve(math.MaxInt)
	}
}

// relieve has up to n slots wait no longer.
func (b *standby) relieve(n int) {
	b.mu.Lock()
	n = min(n, len(b.waiting))
	relieved := b.waiting[:n]
	b.waiting = b.waiting[n:]
	b.mu.Unlock()
	for _, s := range relieved {
		s.over(nil, nil)
	}
}

// back takes in a slot that a committer has had, and that has got a run or not. It reports
// whether it waits again.
func (b *standby) back(s *standbySlot, got bool) (waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken--
	if waits = !got && !s.dismissed && !b.closed; waits {
		b.waiting = slices.Insert(b.waiting, 0, s)
	}
	return waits
}

// Offer implements store.Slot.
func (s *standbySlot) Offer() store.Offer {
	return store.Offer{Worker: s.by.worker, Nonce: s.takes.GetNonce()}
}

// Assign implements store.Slot. The run is held before anybody can hear that it was ended from
// outside.
func (s *standbySlot) Assign(run *store.Assignment) {
	l := s.slot
	waits := l.svc.standby.back(s, run != nil)
	switch {
	case waits:
		poke(l.svc.stock.some)
	case run == nil:
		s.over(nil, nil)
	default:
		l.svc.claims.add(l.svc.Now())
		l.svc.lookForMore()
		lease := leaseOf(&run.Task, run.Tenant, s.by)
		if l.hold(lease, nil) {
			s.over(run, lease)
			return
		}
		l.svc.serving.Go(func() { l.svc.strand(lease, nil, s.worker, s.by.Has(wire.FeatureGiven) && !l.left.Load()) })
	}
}

// stoodDown is what has become of a slot that has waited: a run, or none.
type stoodDown struct {
	*standbySlot
	run   *store.Assignment
	lease *lease
}

// over tells the slot's stream how its wait has ended. A wait ends once, and the next one
// begins only after the stream has looked, so this never waits.
func (s *standbySlot) over(run *store.Assignment, lease *lease) {
	s.slot.stoodDown <- stoodDown{s, run, lease}
}

// standsBy lets a slot that has no run wait for the next one, and reports whether it does. It
// does not while the dispatch stream has more hints than others may come for.
func (l *slot) standsBy(takes *pb.Takes, by carrier, worker *alive.Worker) bool {
	if !takes.GetStandBy() || by.worker == "" || !l.svc.roster.serves(l, l.svc.Pool) {
		return false
	}
	if !l.svc.stock.enoughFor(l.svc.pulling() - 1) {
		return false
	}
	s := &standbySlot{slot: l, by: by, worker: worker, takes: takes}
	return l.seat.unlessClosed(func() bool { // so that whoever closes it has the slot stand down
		l.onStandby.Store(s) // first: it may have a run at once
		waits := l.svc.standby.add(s)
		if !waits {
			l.onStandby.Store(nil)
		}
		return waits
	})
}

// standBy lets a slot wait that has no run, if it may: its worker reads no hints.
func (l *slot) standBy(req *pb.WorkRequest) error {
	if l.seat.current() != nil || l.onStandby.Load() != nil || l.claiming.Load() {
		return tree.ErrBadInput.With("standing by while an attempt is on the stream, or may come")
	}
	l.meet(req)
	claim := req.GetStandBy()
	takes, by := &pb.Takes{Nonce: claim.GetNonce(), StandBy: true}, carrier{claim.GetWorkerId(), claim.GetFeatures()}
	if worker := l.seat.whose(); l.standsBy(takes, by, worker) {
		poke(l.svc.stock.some)
	} else {
		refused := &standbySlot{slot: l, by: by, worker: worker, takes: takes}
		l.onStandby.Store(refused) // until the stream has looked: the next offer comes after that
		refused.over(nil, nil)
	}
	return nil
}

// standDown has the slot wait no longer, whether it is told so or its stream has ended.
func (l *slot) standDown() {
	if s := l.onStandby.Load(); s != nil && l.svc.standby.end(s) {
		s.over(nil, nil)
	}
}

// toldStoodDown is what the worker is told of a slot that has waited.
func (l *slot) toldStoodDown(ctx context.Context, down stoodDown) []*pb.WorkResponse {
	l.onStandby.CompareAndSwap(down.standbySlot, nil)
	answer := &pb.WorkResponse{Kind: &pb.WorkResponse_StoodDown{StoodDown: &pb.StoodDown{}}}
	if down.run == nil {
		return []*pb.WorkResponse{answer}
	}
	if l.seat.current() != down.lease {
		return nil // it was ended from outside, and the worker has been told
	}
	return l.withRun(ctx, answer, down.lease, down.run.Claimed, down.run.CachedConversation, down.takes)
}

// relieve sends slots that wait to the dispatch stream, for what is on it and nobody has come for
// in time. It reports whether more may be needed soon.
func (s *Service) relieve(now time.Time) (unsure bool) {
	if !s.standby.any() {
		return false
	}
	late, coming := s.stock.late(now)
	s.standby.relieve(late)
	return coming > 0
}

// giveKept has slots that wait claim what is kept, as long as there are both. What can't be
// claimed is announced again when its announcement has run out.
func (s *Service) giveKept(ctx context.Context) {
	for s.standby.any() {
		run, any := s.stock.drawAny()
		if !any {
			return
		}
		to := s.standby.Take()
		if to == nil {
			s.stock.back(run)
			return
		}
		claim, err := s.Store.ClaimFor(ctx, store.Announced{Session: run.Session, Task: run.Task, Epoch: run.Epoch}, to)
		if err != nil {
			to.Assign(nil)
			return
		}
		s.serving.Go(func() {
			_, err := claim.Wait(context.WithoutCancel(ctx))
			if err != nil {
				to.Assign(nil)
			}
			if err != nil && ctx.Err() == nil {
				s.notTaken(ctx, run.Hint, err)
			}
		})
	}
}

var _ store.Standby = (*standby)(nil)
var _ store.Slot = (*standbySlot)(nil)
