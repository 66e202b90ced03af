package orchestrator

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// backlogOf returns a backlog with runs of some sessions, all announced at the same time.
func backlogOf(now time.Time, sessions ...byte) *backlog {
	b := newBacklog()
	for i, s := range sessions {
		b.add(now, store.Ready{Session: tree.SessionID{15: s}, Ready: tree.Ready{Task: tree.TaskID{15: byte(i + 1)}, Epoch: 1}})
	}
	return b
}

// numbers returns the numbers of the sessions of hints.
func numbers(hints ...dispatch.Hint) (n []int) {
	for _, h := range hints {
		n = append(n, int(h.Task[15]))
	}
	return n
}

// TestDueRuns: the dispatch stream gets the runs that idle slots wait for, and a few of those that
// are older than keepLocalFor.
func TestDueRuns(t *testing.T) {
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
		"no slot is idle":           {again: keepLocalFor},
		"one is":                    {idle: 1, want: []int{1}, again: claimWithin},
		"more than there are":       {idle: 5, want: []int{1, 2, 3}},
		"one is on its way":         {idle: 2, sent: 1, want: []int{1}, again: claimWithin},
		"all are on their way":      {idle: 2, sent: 3, again: claimWithin},
		"one has come":              {idle: 2, sent: 2, came: 1, want: []int{1}, again: claimWithin},
		"they are late":             {idle: 2, sent: 2, since: -claimWithin, again: claimWithin},
		"nobody has come":           {idle: 2, sent: 2, since: -keepLocalFor, want: []int{1, 2}, again: claimWithin},
		"they have waited for long": {after: keepLocalFor, want: []int{1, 2, 3}},
		"… and so have others":      {after: keepLocalFor, sent: maxOutstanding - 2, want: []int{1, 2}, again: keepLocalFor + claimWithin},
		"… and enough others":       {after: keepLocalFor, sent: maxOutstanding, again: keepLocalFor + claimWithin},
		"they will have soon":       {after: keepLocalFor - 1, again: keepLocalFor - 1 + claimWithin},
	} {
		b := backlogOf(begun, 1, 1, 1)
		for range test.sent {
			b.outstanding = append(b.outstanding, begun.Add(test.since))
		}
		for range test.came {
			b.hintClaimed(begun)
		}
		hints, again := b.takeDue(begun.Add(test.after), test.idle)
		if got := numbers(hints...); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v are due, want %v", name, got, test.want)
		}
		if again.IsZero() != (test.again == 0) || test.again > 0 && !again.Equal(begun.Add(test.again)) {
			t.Errorf("%s: the next look is at %s", name, again)
		}
	}
}

// TestARunThatComesBackIsAsOld: a run that is put back keeps its age, so that it and the runs
// behind it go on the dispatch stream in time.
func TestARunThatComesBackIsAsOld(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	b := backlogOf(begun, 1, 1, 2)
	b.putBack(b.takeIf(begun.Add(keepLocalFor/2), 0, of(tree.SessionID{15: 1})))
	if hints, _ := b.takeDue(begun.Add(keepLocalFor), 0); !slices.Equal(numbers(hints...), []int{1, 2, 3}) {
		t.Errorf("%v are due", numbers(hints...))
	}
}

// of returns a function that accepts the runs of a session.
func of(session tree.SessionID) func(tree.SessionID) bool {
	return func(other tree.SessionID) bool { return other == session }
}

// TestTakingRuns: a slot that has become free gets the first run, unless a hint on the dispatch
// stream has waited longer.
func TestTakingRuns(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	b := backlogOf(now, 1, 2, 1)
	if got := b.takeIf(now, 0, of(tree.SessionID{15: 2})); got != (queuedRun{}) {
		t.Errorf("a slot of session 2 has got %v, which is not the first", got)
	}
	first := b.takeIf(now, 0, of(tree.SessionID{15: 1}))
	if got := numbers(first.Hint); !slices.Equal(got, []int{1}) {
		t.Fatalf("a slot of session 1 has got %v, want the first", got)
	}
	b.putBack(first)
	b.putBack(queuedRun{}) // it was to have none
	for i := range 3 {
		if got, any := b.take(now, 0); !any || !slices.Equal(numbers(got.Hint), []int{i + 1}) {
			t.Errorf("slot %d has got %v", i+1, got)
		}
	}
	if got, any := b.take(now, 0); any {
		t.Errorf("%v was taken when there was nothing left", got)
	}
	b.putBack(first)
	if due, _ := b.takeDue(now, 3); due != nil {
		t.Errorf("%v are due, though the only idle slots are those that take", due)
	}
	for range 3 {
		b.takeDone()
	}
	b.outstanding = append(b.outstanding, now)
	late := now.Add(claimWithin)
	if got, any := b.take(late, 0); any {
		t.Errorf("%v was taken, though a hint waits on the stream", got)
	}
	if got := b.takeIf(late, 0, of(first.Session)); got != (queuedRun{}) {
		t.Errorf("%v was taken, though a hint waits on the stream", got)
	}
	if got, any := b.take(late, 1); !any {
		t.Error("nothing was taken, though an idle slot may come for the hint")
	} else if b.putBack(got); b.wouldTake(late, 1) {
		t.Error("one idle slot is to come for a hint, and to have a run with which it is busy")
	}
	b.takeDone()
	b.hintClaimed(late)
	if _, any := b.take(late, 0); !any {
		t.Error("nothing was taken once somebody had come for the hint")
	}
}

// wouldTake checks whether one more slot could take a run, without giving it one.
func (b *backlog) wouldTake(now time.Time, idle int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mayTake(now, idle)
}

// TestARunThatIsAnnouncedAgain: a run that waits for a slot is not added again.
func TestARunThatIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	b := backlogOf(begun, 1)
	again := store.Ready{Session: b.runs[0].Session, Ready: tree.Ready{Task: b.runs[0].Task, Epoch: 1}, Again: true}
	b.add(begun.Add(announceLease), again)
	if len(b.runs) != 1 {
		t.Errorf("there are %d runs, want the one", len(b.runs))
	}
	again.Epoch = 2
	if b.add(begun.Add(announceLease), again); len(b.runs) != 2 {
		t.Errorf("there are %d runs, want the one and the next that its task has", len(b.runs))
	}
}

// TestWhatRedisDoesNotTakeStays: hints that Redis does not take stay for slots of this replica. For
// a while nothing goes on the dispatch stream, and no slot is expected to claim a hint from it.
func TestWhatRedisDoesNotTakeStays(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	b := backlogOf(begun, 1, 1, 1)
	sent, _ := b.takeDue(begun, 2)
	if again := b.sendFailed(begun, sent); !again.Equal(begun.Add(redisRetryAfter)) {
		t.Errorf("nobody looks again until %s", again)
	}
	soon := begun.Add(redisRetryAfter - 1)
	if hints, again := b.takeDue(soon, 2); hints != nil || !again.Equal(begun.Add(redisRetryAfter)) || !b.isPaused(soon) {
		t.Errorf("soon %v are sent, and others at %s", numbers(hints...), again)
	}
	if late, coming := b.overdue(soon); late != 0 || coming != 0 || !b.idleSuffice(0) {
		t.Errorf("slots are to come for %d that are late and %d others", late, coming)
	}
	b.add(soon, store.Ready{Session: tree.SessionID{15: 1}, Ready: tree.Ready{Task: tree.TaskID{15: 2}, Epoch: 1}, Again: true})
	var got []int
	for run, any := b.take(soon, 0); any; run, any = b.take(soon, 0) {
		got = append(got, numbers(run.Hint)...)
		b.takeDone()
	}
	if !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("slots have got %v, want all once, the first first", got)
	}
	b.putBack(queuedRun{sent[0], begun})
	if hints, _ := b.takeDue(begun.Add(redisRetryAfter), 1); !slices.Equal(numbers(hints...), []int{1}) {
		t.Errorf("later %v are sent, want the one that is left", numbers(hints...))
	}
	b.add(begun, store.Ready{Ready: tree.Ready{Task: tree.TaskID{15: 7}}}, store.Ready{Ready: tree.Ready{Task: tree.TaskID{15: 8}}}, store.Ready{Ready: tree.Ready{Task: tree.TaskID{15: 9}}})
	if hints, _ := b.takeDue(begun.Add(redisRetryAfter), 9); len(hints) != 1 {
		t.Errorf("%d are offered to who may not take them, want 1", len(hints))
	}
	if b.sendSucceeded(); b.isPaused(soon) {
		t.Error("who has taken one is away")
	}
	if hints, _ := b.takeDue(begun.Add(redisRetryAfter), 9); len(hints) != 2 {
		t.Errorf("%d are offered to who has taken one, want all 2", len(hints))
	}
	if b.streamUnreadable(soon); !b.idleSuffice(0) || b.isPaused(begun.Add(redisRetryAfter)) {
		t.Error("what can't be read is waited for, or keeps others from being sent")
	}
}
