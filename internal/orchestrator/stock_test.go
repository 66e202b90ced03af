package orchestrator

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// stockOf holds runs of some sessions, which have been announced at one time.
func stockOf(now time.Time, sessions ...byte) *stock {
	k := newStock()
	for i, s := range sessions {
		k.add(now, store.Ready{Session: tree.SessionID{15: s}, Ready: tree.Ready{Task: tree.TaskID{15: byte(i + 1)}, Epoch: 1}})
	}
	return k
}

// numbers tells which of them hints are of.
func numbers(hints ...dispatch.Hint) (n []int) {
	for _, h := range hints {
		n = append(n, int(h.Task[15]))
	}
	return n
}

// TestDueStock: the dispatch stream gets what idle slots wait for, and a few of those that have been
// kept for long enough.
func TestDueStock(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		after time.Duration
		idle  int
		sent  int           // hints that nobody has come for
		since time.Duration // when they were sent
		came  int           // of them
		want  []int
		again time.Duration
	}{
		"no slot is idle":           {again: keepFor},
		"one is":                    {idle: 1, want: []int{1}, again: comeWithin},
		"more than there are":       {idle: 5, want: []int{1, 2, 3}},
		"one is on its way":         {idle: 2, sent: 1, want: []int{1}, again: comeWithin},
		"all are on their way":      {idle: 2, sent: 3, again: comeWithin},
		"one has come":              {idle: 2, sent: 2, came: 1, want: []int{1}, again: comeWithin},
		"they are late":             {idle: 2, sent: 2, since: -comeWithin, again: comeWithin},
		"nobody has come":           {idle: 2, sent: 2, since: -keepFor, want: []int{1, 2}, again: comeWithin},
		"they have waited for long": {after: keepFor, want: []int{1, 2, 3}},
		"… and so have others":      {after: keepFor, sent: keptOnStream - 2, want: []int{1, 2}, again: keepFor + comeWithin},
		"… and enough others":       {after: keepFor, sent: keptOnStream, again: keepFor + comeWithin},
		"they will have soon":       {after: keepFor - 1, again: keepFor - 1 + comeWithin},
	} {
		k := stockOf(begun, 1, 1, 1)
		for range test.sent {
			k.onStream = append(k.onStream, begun.Add(test.since))
		}
		for range test.came {
			k.came(begun)
		}
		hints, again := k.due(begun.Add(test.after), test.idle)
		if got := numbers(hints...); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v are due, want %v", name, got, test.want)
		}
		if again.IsZero() != (test.again == 0) || test.again > 0 && !again.Equal(begun.Add(test.again)) {
			t.Errorf("%s: the next look is at %s", name, again)
		}
	}
}

// TestARunThatComesBackIsAsOld as before: whoever can't have it does not keep it, or those
// behind it, from the dispatch stream.
func TestARunThatComesBackIsAsOld(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	k := stockOf(begun, 1, 1, 2)
	k.back(k.drawFor(begun.Add(keepFor/2), 0, of(tree.SessionID{15: 1})))
	if hints, _ := k.due(begun.Add(keepFor), 0); !slices.Equal(numbers(hints...), []int{1, 2, 3}) {
		t.Errorf("%v are due", numbers(hints...))
	}
}

// of fits runs of a session.
func of(session tree.SessionID) func(tree.SessionID) bool {
	return func(other tree.SessionID) bool { return other == session }
}

// TestDrawing: a slot that has become free gets the first run, unless something that has
// waited for longer is on the dispatch stream.
func TestDrawing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	k := stockOf(now, 1, 2, 1)
	if got := k.drawFor(now, 0, of(tree.SessionID{15: 2})); got != (waitingRun{}) {
		t.Errorf("a slot of session 2 has got %v, which is not the first", got)
	}
	first := k.drawFor(now, 0, of(tree.SessionID{15: 1}))
	if got := numbers(first.Hint); !slices.Equal(got, []int{1}) {
		t.Fatalf("a slot of session 1 has got %v, want the first", got)
	}
	k.back(first)
	k.back(waitingRun{}) // it was to have none
	for i := range 3 {
		if got, any := k.draw(now, 0); !any || !slices.Equal(numbers(got.Hint), []int{i + 1}) {
			t.Errorf("slot %d has got %v", i+1, got)
		}
	}
	if got, any := k.draw(now, 0); any {
		t.Errorf("%v was taken when there was nothing left", got)
	}
	k.back(first)
	if due, _ := k.due(now, 3); due != nil {
		t.Errorf("%v are due, though the only idle slots are those that take", due)
	}
	for range 3 {
		k.drawn()
	}
	k.onStream = append(k.onStream, now)
	late := now.Add(comeWithin)
	if got, any := k.draw(late, 0); any {
		t.Errorf("%v was taken, though a hint waits on the stream", got)
	}
	if got := k.drawFor(late, 0, of(first.Session)); got != (waitingRun{}) {
		t.Errorf("%v was taken, though a hint waits on the stream", got)
	}
	if got, any := k.draw(late, 1); !any {
		t.Error("nothing was taken, though an idle slot may come for the hint")
	} else if k.back(got); k.enoughToDraw(late, 1) {
		t.Error("one idle slot is to come for a hint, and to have a run with which it is busy")
	}
	k.drawn()
	k.came(late)
	if _, any := k.draw(late, 0); !any {
		t.Error("nothing was taken once somebody had come for the hint")
	}
}

// enoughToDraw looks whether a further slot may have a run, without giving it one.
func (k *stock) enoughToDraw(now time.Time, idle int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mayDraw(now, idle)
}

// TestARunThatIsAnnouncedAgain is not doubled while it waits for a slot.
func TestARunThatIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	k := stockOf(begun, 1)
	again := store.Ready{Session: k.runs[0].Session, Ready: tree.Ready{Task: k.runs[0].Task, Epoch: 1}, Again: true}
	k.add(begun.Add(announceLease), again)
	if len(k.runs) != 1 {
		t.Errorf("there are %d runs, want the one", len(k.runs))
	}
	again.Epoch = 2
	if k.add(begun.Add(announceLease), again); len(k.runs) != 2 {
		t.Errorf("there are %d runs, want the one and the next that its task has", len(k.runs))
	}
}

// TestWhatRedisDoesNotTakeStays for slots of this replica: for a while nothing goes on the dispatch
// stream, and nobody is waited for there.
func TestWhatRedisDoesNotTakeStays(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	k := stockOf(begun, 1, 1, 1)
	sent, _ := k.due(begun, 2)
	if again := k.notSent(begun, sent); !again.Equal(begun.Add(tryAgain)) {
		t.Errorf("nobody looks again until %s", again)
	}
	soon := begun.Add(tryAgain - 1)
	if hints, again := k.due(soon, 2); hints != nil || !again.Equal(begun.Add(tryAgain)) || !k.isAway(soon) {
		t.Errorf("soon %v are sent, and others at %s", numbers(hints...), again)
	}
	if late, coming := k.late(soon); late != 0 || coming != 0 || !k.enoughFor(0) {
		t.Errorf("slots are to come for %d that are late and %d others", late, coming)
	}
	k.add(soon, store.Ready{Session: tree.SessionID{15: 1}, Ready: tree.Ready{Task: tree.TaskID{15: 2}, Epoch: 1}, Again: true})
	var got []int
	for run, any := k.draw(soon, 0); any; run, any = k.draw(soon, 0) {
		got = append(got, numbers(run.Hint)...)
		k.drawn()
	}
	if !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("slots have got %v, want all once, the first first", got)
	}
	k.back(waitingRun{sent[0], begun})
	if hints, _ := k.due(begun.Add(tryAgain), 1); !slices.Equal(numbers(hints...), []int{1}) {
		t.Errorf("later %v are sent, want the one that is left", numbers(hints...))
	}
	k.add(begun, store.Ready{Ready: tree.Ready{Task: tree.TaskID{15: 7}}}, store.Ready{Ready: tree.Ready{Task: tree.TaskID{15: 8}}}, store.Ready{Ready: tree.Ready{Task: tree.TaskID{15: 9}}})
	if hints, _ := k.due(begun.Add(tryAgain), 9); len(hints) != 1 {
		t.Errorf("%d are offered to who may not take them, want 1", len(hints))
	}
	if k.sent(); k.isAway(soon) {
		t.Error("who has taken one is away")
	}
	if hints, _ := k.due(begun.Add(tryAgain), 9); len(hints) != 2 {
		t.Errorf("%d are offered to who has taken one, want all 2", len(hints))
	}
	if k.unread(soon); !k.enoughFor(0) || k.isAway(begun.Add(tryAgain)) {
		t.Error("what can't be read is waited for, or keeps others from being sent")
	}
}
