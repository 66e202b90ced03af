package storetest

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

const (
	lease   = 5 * time.Second
	replica = "replica-1" // whose stores the tests have, unless they say so
)

// take announces up to so many runs at once.
func (b *bundle) take(n int) []store.Ready {
	b.t.Helper()
	taken, err := b.PickReady(b.t.Context(), n, lease)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range taken {
		if r.Replica != replica {
			b.t.Errorf("a run was made ready by %q, not %q", r.Replica, replica)
		}
	}
	return taken
}

// spread opens a session whose root has so many pending children, with a cap on running tasks.
func (b *bundle) spread(n, children, running int) {
	b.t.Helper()
	cmd := create(n)
	cmd.Limits.Running, cmd.Limits.Width = running, children+1
	b.must(cmd.ID, cmd)
	cmds := make([]tree.Command, children)
	for i := range cmds {
		cmds[i] = tree.SpawnTask{Child: child("work")}
	}
	for len(cmds) > 0 {
		some := min(len(cmds), 1000)
		for _, p := range b.submitted(cmd.ID, cmds[:some]...) {
			must[tree.Answer](b.t)(p.Wait(b.t.Context()))
		}
		cmds = cmds[some:]
	}
}

// counts says how many runs of each session were picked.
func counts(taken []store.Ready) map[tree.SessionID]int {
	c := map[tree.SessionID]int{}
	for _, r := range taken {
		c[r.Session]++
	}
	return c
}

// readyOrder: foreground runs go before background runs, and older runs before younger ones.
func readyOrder(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 2, 10)
	b.create(2, "hello")
	taken := b.take(10)
	if len(taken) != 3 || taken[0].Session != session(2) {
		t.Fatalf("taken were %+v", taken)
	}
	tasks := must[[]tree.Task](t)(b.Tree(b.t.Context(), session(1)))
	for _, task := range tasks {
		for i, r := range taken {
			if r.Task == task.ID {
				eq(t, "the epoch", r.Epoch, task.Epoch)
				eq(t, "the age", r.At, task.AcceptedAt)
				eq(t, "whether it is older", i == 1, taken[2].Task.String() > r.Task.String())
			}
		}
	}
	eq(t, "how many are left", len(b.take(10)), 0)
	b.clock.advance(7 * time.Second)
	work := must[*store.Work](t)(b.Work(b.t.Context()))
	eq(t, "what waits", *work, store.Work{Ready: len(taken), Oldest: taken[1].At, Waits: b.clock.Now().Sub(taken[1].At)})
}

// readyTurns: sessions take turns, whichever came first.
func readyTurns(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 50, 50)
	b.spread(2, 5, 50)
	b.spread(3, 5, 50)
	c := counts(b.take(15))
	for n := 1; n <= 3; n++ {
		eq(t, "a session's share", c[session(n)], 5)
	}
}

// readyCap: no more runs of a session are announced than its cap allows, counting announced and
// running ones.
func readyCap(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 10, 3)
	b.spread(2, 1, 3)
	taken := b.take(100)
	c := counts(taken)
	eq(t, "the capped session's share", c[session(1)], 3)
	eq(t, "the other's", c[session(2)], 1)
	eq(t, "how many are offered beyond the cap", len(b.take(100)), 0)
	var w *worker
	for _, r := range taken {
		if r.Session == session(1) {
			w = b.claim(r.Session, r.Task)
		}
	}
	b.clock.advance(2 * lease)
	eq(t, "how many are offered beyond the cap", len(b.take(100)), 1) // of session 2, which nobody claimed
	w.answers("done")
	taken = b.take(100)
	eq(t, "how many are offered when one has ended", len(taken), 1)
	eq(t, "their session", taken[0].Session, session(1))
}

// readyBudget: no more runs of a session are announced than its budget has model calls for,
// counting announced and running ones. Once no call is left, all are announced.
func readyBudget(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 5, 5)
	b.must(session(1), tree.ChangeSession{Budget: &tree.Budget{ModelCalls: 2}})
	taken := b.take(100)
	eq(t, "how many are offered for two calls", len(taken), 2)
	first, second := b.claim(session(1), taken[0].Task), b.claim(session(1), taken[1].Task)
	first.answers("done")
	eq(t, "how many are offered while the last call is under way", len(b.take(100)), 0)
	second.answers("done")
	eq(t, "how many are offered to end without a call", len(b.take(100)), 3)
}

// readyFlood: a session with very many runs, all older than the others', does not keep other
// sessions from their turns, whether it is at its cap or below.
func readyFlood(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 3000, 4)
	c := counts(b.take(100))
	eq(t, "the flooding session's share", c[session(1)], 4)
	b.spread(2, 10, 10)
	eq(t, "the other's", counts(b.take(100))[session(2)], 10)
	// What keeps a session at its cap may be announced, or run, or both.
	b.clock.advance(2 * lease)
	for _, r := range b.take(100) {
		if r.Session == session(1) {
			b.claim(r.Session, r.Task)
		}
	}
	b.spread(3, 10, 10)
	eq(t, "the third's", counts(b.take(100))[session(3)], 10)
}

// readyLease: a run that is not claimed is picked again when its announcement expires, or when it
// is released.
func readyLease(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.create(1, "hello")
	first := b.take(1)
	eq(t, "how many are offered", len(first), 1)
	eq(t, "whether it is a repeat", first[0].Again, false)
	eq(t, "how many are offered within the lease", len(b.take(1)), 0)
	b.clock.advance(lease)
	again := b.take(1)
	eq(t, "how many are offered after the lease", len(again), 1)
	eq(t, "whether it is a repeat", again[0].Again, true)
	r := again[0]
	for _, release := range []struct {
		epoch int64
		again int
	}{{r.Epoch + 1, 0}, {r.Epoch, 1}} {
		if err := b.ReleaseReady(b.t.Context(), r.Session, r.Task, release.epoch); err != nil {
			t.Fatal(err)
		}
		eq(t, "how many are offered after the release", len(b.take(1)), release.again)
	}
	b.claim(r.Session, r.Task)
	if err := b.ReleaseReady(b.t.Context(), r.Session, r.Task, r.Epoch); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(2 * lease)
	eq(t, "how many are offered after the claim", len(b.take(1)), 0)
}

// readyReleased: runs that were released because their session is at its cap do not get in the way
// of others, however many they are.
func readyReleased(t *testing.T, d Dialect) {
	const running = 6
	b := setup(t, d)
	b.spread(1, 2*running, running)
	taken := b.take(100)
	eq(t, "how many are offered", len(taken), running)
	offered := map[tree.TaskID]bool{}
	for _, r := range taken {
		offered[r.Task] = true
	}
	for _, task := range must[[]tree.Task](t)(b.Tree(t.Context(), session(1))) {
		if task.Depth > 0 && !offered[task.ID] {
			b.claim(session(1), task.ID)
		}
	}
	for _, r := range taken {
		if err := b.ReleaseReady(t.Context(), r.Session, r.Task, r.Epoch); err != nil {
			t.Fatal(err)
		}
	}
	b.spread(2, 1, 1)
	eq(t, "the other session's share", counts(b.take(1))[session(2)], 1)
}

// readyRestart: turns survive a restart: a session that came later does not go first.
func readyRestart(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 30, 100)
	for _, r := range b.take(10) {
		b.claim(r.Session, r.Task)
	}
	b.restart()
	b.spread(2, 30, 100)
	c := counts(b.take(20))
	eq(t, "the older session's share", c[session(1)], 10)
	eq(t, "the younger one's", c[session(2)], 10)
}

// room: OnCommit reports that a session that was at its cap has room again.
func room(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 2, 1)
	w := b.claim(session(1), b.take(1)[0].Task)
	told := len(b.committed())
	w.answers("done")
	b.stop()
	// What is answered may be told later: the claim's commit may be among these.
	last := b.committed()[told:]
	if len(last) == 0 || !last[len(last)-1].Room || len(last) > 1 && last[0].Room {
		t.Errorf("the hook was told %+v", last)
	}
	b.restart()
	eq(t, "how many are offered", len(b.take(1)), 1)
}
