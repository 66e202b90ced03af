package orchestrator

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// offering holds runs of some sessions, which have been announced at one time.
func offering(now time.Time, sessions ...byte) *offers {
	o := newOffers()
	for i, s := range sessions {
		o.add(now, store.Ready{Session: tree.SessionID{15: s}, Ready: tree.Ready{Task: tree.TaskID{15: byte(i + 1)}, Epoch: 1}})
	}
	return o
}

// numbers tells which of them hints are of.
func numbers(hints ...dispatch.Hint) (n []int) {
	for _, h := range hints {
		n = append(n, int(h.Task[15]))
	}
	return n
}

// TestDueOffers: the dispatch stream gets what idle slots wait for, and what has been kept for
// long enough.
func TestDueOffers(t *testing.T) {
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
		"no slot is idle":           {again: offerFor},
		"one is":                    {idle: 1, want: []int{1}, again: comeWithin},
		"more than there are":       {idle: 5, want: []int{1, 2, 3}},
		"one is on its way":         {idle: 2, sent: 1, want: []int{1}, again: comeWithin},
		"all are on their way":      {idle: 2, sent: 3, again: comeWithin},
		"one has come":              {idle: 2, sent: 2, came: 1, want: []int{1}, again: comeWithin},
		"nobody has come":           {idle: 2, sent: 2, since: -comeWithin, want: []int{1, 2}, again: comeWithin},
		"they have waited for long": {after: offerFor, want: []int{1, 2, 3}},
	} {
		o := offering(begun, 1, 1, 1)
		for range test.sent {
			o.onStream = append(o.onStream, begun.Add(test.since))
		}
		for range test.came {
			o.came(begun)
		}
		hints, again := o.due(begun.Add(test.after), test.idle)
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
	o := offering(begun, 1, 1, 2)
	o.back(o.takeFor(begun.Add(offerFor/2), of(tree.SessionID{15: 1})))
	if hints, _ := o.due(begun.Add(offerFor), 0); !slices.Equal(numbers(hints...), []int{1, 2, 3}) {
		t.Errorf("%v are due", numbers(hints...))
	}
}

// of fits runs of a session.
func of(session tree.SessionID) func(tree.SessionID) bool {
	return func(other tree.SessionID) bool { return other == session }
}

// TestTakenOffers: a slot that has become free gets the first run, unless something that has
// waited for longer is on the dispatch stream.
func TestTakenOffers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	o := offering(now, 1, 2, 1)
	if got := o.takeFor(now, of(tree.SessionID{15: 2})); got != (waitingRun{}) {
		t.Errorf("a slot of session 2 has got %v, which is not the first", got)
	}
	first := o.takeFor(now, of(tree.SessionID{15: 1}))
	if got := numbers(first.Hint); !slices.Equal(got, []int{1}) {
		t.Fatalf("a slot of session 1 has got %v, want the first", got)
	}
	o.back(first)
	o.back(waitingRun{}) // it was to have none
	for i := range 3 {
		if got, any := o.take(now); !any || !slices.Equal(numbers(got.Hint), []int{i + 1}) {
			t.Errorf("slot %d has got %v", i+1, got)
		}
	}
	if got, any := o.take(now); any {
		t.Errorf("%v was taken when there was nothing left", got)
	}
	o.back(first)
	if due, _ := o.due(now, 3); due != nil {
		t.Errorf("%v are due, though the only idle slots are those that take", due)
	}
	for range 3 {
		o.taken()
	}
	o.onStream = append(o.onStream, now)
	late := now.Add(comeWithin)
	if got, any := o.take(late); any {
		t.Errorf("%v was taken, though a hint waits on the stream", got)
	}
	if got := o.takeFor(late, of(first.Session)); got != (waitingRun{}) {
		t.Errorf("%v was taken, though a hint waits on the stream", got)
	}
	o.came(late)
	if _, any := o.take(late); !any {
		t.Error("nothing was taken once somebody had come for the hint")
	}
}
