package orchestrator

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
)

// slotsOn gives slots that wait, each with room for what becomes of it.
func slotsOn(b *standby, n int) []*standbySlot {
	all := make([]*standbySlot, n)
	for i := range all {
		all[i] = &standbySlot{slot: &slot{svc: &Service{standby: b, stock: newStock()}, stoodDown: make(chan stoodDown, 1)}}
		b.census.joined()
		b.add(all[i])
	}
	return all
}

// relieved reports whether a slot was told that it waits no longer, without a run.
func relieved(s *standbySlot) bool {
	select {
	case down := <-s.slot.stoodDown:
		return down.run == nil
	default:
		return false
	}
}

// TestStandby: who has waited for longest is first; a slot ends its wait once, and not while
// a committer has it.
func TestStandby(t *testing.T) {
	t.Parallel()
	b := newStandby(&census{})
	if b.IdleSlots() >= 0 || b.Take() != nil {
		t.Error("there is a slot on an empty bench")
	}
	all := slotsOn(b, 3)
	if got := b.IdleSlots(); got != 2 {
		t.Errorf("beside one there are %d, want 2", got)
	}
	first := b.Take()
	if first != store.Slot(all[0]) || b.size() != 3 {
		t.Errorf("taken was %v, of %d left", first, b.size())
	}
	if b.end(all[0]) || relieved(all[0]) {
		t.Error("a slot that a committer has was told that it gets nothing")
	}
	if first.Assign(nil); !relieved(all[0]) || b.size() != 2 {
		t.Errorf("a slot that is to wait no longer waits again, with %d", b.size())
	}
	second := b.Take()
	if second.Assign(nil); b.Take() != second {
		t.Error("a slot that got nothing is not the first any more")
	}
	second.Assign(nil)
	if !b.end(all[1]) || b.end(all[1]) || b.size() != 1 {
		t.Errorf("%d wait, want 1", b.size())
	}
}

// TestStandbyIsClosed: where others may have runs for them, slots do not wait.
func TestStandbyIsClosed(t *testing.T) {
	t.Parallel()
	b := newStandby(&census{})
	all := slotsOn(b, 3)
	taken := b.Take()
	if b.relieve(1); !relieved(all[1]) || relieved(all[2]) {
		t.Error("not the one that has waited for longest was relieved")
	}
	if b.open(false); !relieved(all[2]) || relieved(all[0]) {
		t.Error("not all were relieved that wait, or one that does not")
	}
	if taken.Assign(nil); !relieved(all[0]) || b.size() != 0 {
		t.Errorf("%d wait", b.size())
	}
	if b.add(all[0]) {
		t.Error("a slot waits")
	}
	if b.open(true); !b.add(all[0]) {
		t.Error("a slot does not wait")
	}
}

// TestNobodyWaitsWhileHintsDo: a slot may wait only where others come for what is on the dispatch
// stream.
func TestNobodyWaitsWhileHintsDo(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	k := stockOf(now, 1, 1, 1)
	k.due(now, 3)
	for idle, want := range map[int]bool{-1: false, 0: false, 2: false, 3: true} {
		if got := k.enoughFor(idle); got != want {
			t.Errorf("with %d idle slots a further one may wait: %v", idle, got)
		}
	}
	if late, coming := k.late(now); late != 0 || coming != 3 {
		t.Errorf("at once %d are late, %d coming", late, coming)
	}
	if late, coming := k.late(now.Add(comeWithin)); late != 3 || coming != 0 {
		t.Errorf("later %d are late, %d coming", late, coming)
	}
	k.onStream = nil
	later := now.Add(2 * announceLease)
	k.onStream = append(k.onStream, now, now, now, now)
	k.came(later)
	if k.reconcile(later, 2, 1); k.enoughFor(1) || !k.enoughFor(2) {
		t.Error("what nobody has read is not waited for, or what is lost is")
	}
	if k.reconcile(later, 4, 1); k.enoughFor(3) || !k.enoughFor(4) {
		t.Error("hints that others have put there are not waited for")
	}
	k.onStream = append(k.onStream, later)
	if k.reconcile(later, 0, 1); k.enoughFor(0) || !k.enoughFor(1) {
		t.Error("what has just been announced is lost at once, or what is lost is waited for")
	}
	k.reconcile(later, 3, 1)
	later = later.Add(2 * announceLease)
	if k.reconcile(later, 3, 0); k.enoughFor(2) {
		t.Error("what nobody could come for is lost")
	}
	later = later.Add(2 * announceLease)
	if k.reconcile(later, 3, 1); !k.enoughFor(0) {
		t.Error("slots are waited for that do not come")
	}
	k.came(later)
	if k.reconcile(later, 3, 1); k.enoughFor(2) {
		t.Error("what was given up is not waited for once somebody has come")
	}
}
