package orchestrator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
)

// slotsOn makes n slots stand by, and returns them.
func slotsOn(b *standby, n int) []*standbySlot {
	all := make([]*standbySlot, n)
	for i := range all {
		all[i] = &standbySlot{slot: &slot{svc: &Service{standby: b, backlog: newBacklog()}, standbyEnds: make(chan standbyEnd, 1)}}
		b.slots.add()
		b.add(all[i])
	}
	return all
}

// isDismissed reports whether the standby of a slot has ended without a run.
func isDismissed(s *standbySlot) bool {
	select {
	case down := <-s.slot.standbyEnds:
		return down.run == nil
	default:
		return false
	}
}

// TestStandby: the slot that has waited for longest is first. A slot's standby ends once, and not
// while a committer has the slot.
func TestStandby(t *testing.T) {
	t.Parallel()
	b := newStandby(&slotCounter{})
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
	if b.remove(all[0]) || isDismissed(all[0]) {
		t.Error("a slot that a committer has was told that it gets nothing")
	}
	if first.Assign(nil); !isDismissed(all[0]) || b.size() != 2 {
		t.Errorf("a slot that is to wait no longer waits again, with %d", b.size())
	}
	second := b.Take()
	if second.Assign(nil); b.Take() != second {
		t.Error("a slot that got nothing is not the first any more")
	}
	second.Assign(nil)
	if !b.remove(all[1]) || b.remove(all[1]) || b.size() != 1 {
		t.Errorf("%d wait, want 1", b.size())
	}
}

// TestStandbyIsClosed: slots do not stand by if other replicas may have runs for them.
func TestStandbyIsClosed(t *testing.T) {
	t.Parallel()
	b := newStandby(&slotCounter{})
	all := slotsOn(b, 3)
	taken := b.Take()
	all[1].deaf = true
	if b.dismiss(1); isDismissed(all[1]) || !isDismissed(all[2]) {
		t.Error("not the one whose worker reads hints was dismissed")
	}
	all[1].deaf = false
	b.add(all[2])
	if b.dismiss(1); !isDismissed(all[1]) || isDismissed(all[2]) {
		t.Error("not the one that has waited for longest was dismissed")
	}
	if b.setOpen(false); !isDismissed(all[2]) || isDismissed(all[0]) {
		t.Error("not all were dismissed that wait, or one that does not")
	}
	if taken.Assign(nil); !isDismissed(all[0]) || b.size() != 0 {
		t.Errorf("%d wait", b.size())
	}
	if b.add(all[0]) {
		t.Error("a slot waits")
	}
	if b.setOpen(true); !b.add(all[0]) {
		t.Error("a slot does not wait")
	}
}

// TestNobodyWaitsWhileHintsDo: a slot stands by only if other slots suffice to claim the hints on
// the dispatch stream.
func TestNobodyWaitsWhileHintsDo(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	b := backlogOf(now, 1, 1, 1)
	b.takeDue(now, 3)
	for idle, want := range map[int]bool{-1: false, 0: false, 2: false, 3: true} {
		if got := b.idleSuffice(idle); got != want {
			t.Errorf("with %d idle slots a further one may wait: %v", idle, got)
		}
	}
	if late, coming := b.overdue(now); late != 0 || coming != 3 {
		t.Errorf("at once %d are late, %d coming", late, coming)
	}
	if late, coming := b.overdue(now.Add(claimWithin)); late != 3 || coming != 0 {
		t.Errorf("later %d are late, %d coming", late, coming)
	}
	b.outstanding = nil
	later := now.Add(2 * announceLease)
	b.outstanding = append(b.outstanding, now, now, now, now)
	b.hintClaimed(later)
	if b.reconcile(later, 2, 1); b.idleSuffice(1) || !b.idleSuffice(2) {
		t.Error("what nobody has read is not waited for, or what is lost is")
	}
	if b.reconcile(later, 4, 1); b.idleSuffice(3) || !b.idleSuffice(4) {
		t.Error("hints that others have put there are not waited for")
	}
	b.outstanding = append(b.outstanding, later)
	if b.reconcile(later, 0, 1); b.idleSuffice(0) || !b.idleSuffice(1) {
		t.Error("what has just been announced is lost at once, or what is lost is waited for")
	}
	b.reconcile(later, 3, 1)
	later = later.Add(2 * announceLease)
	if b.reconcile(later, 3, 0); b.idleSuffice(2) {
		t.Error("what nobody could come for is lost")
	}
	later = later.Add(2 * announceLease)
	if b.reconcile(later, 3, 1); !b.idleSuffice(0) {
		t.Error("slots are waited for that do not come")
	}
	b.hintClaimed(later)
	if b.reconcile(later, 3, 1); b.idleSuffice(2) {
		t.Error("what was given up is not waited for once somebody has come")
	}
}

// TestASecondStandby: a slot does not stand by again before its stream has received how its last
// standby ended. A committer would wait for the stream otherwise.
func TestASecondStandby(t *testing.T) {
	t.Parallel()
	s := &Service{backlog: newBacklog(), leases: newLeases(), registry: newWorkerRegistry()}
	s.Pool = "p"
	s.standby = newStandby(&s.slots)
	l := &slot{svc: s, standbyEnds: make(chan standbyEnd, 1)}
	s.registry.addStream(l)
	s.registry.setWorker(l, &pb.Hello{WorkerId: "w", Pool: "p", StartTime: timestamppb.Now()})
	begin := func() bool {
		return (&standbySlot{slot: l, info: workerInfo{id: "w"}, takes: &pb.Takes{StandBy: true}}).begin()
	}
	if !begin() {
		t.Fatal("the slot does not stand by")
	}
	s.standby.setOpen(false) // ends the first standby
	s.standby.setOpen(true)
	if begin() {
		t.Error("the slot stands by before its stream knows how its last standby ended")
	}
	l.answerStandbyEnd(t.Context(), <-l.standbyEnds)
	if !begin() {
		t.Error("the slot does not stand by again")
	}
}
