package storetest

import (
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

// grow opens a session that may run so many tasks at once, whose root has so many children and waits
// for them.
func (b *bundle) grow(n, children, running int) {
	b.t.Helper()
	cmd := create(n)
	cmd.Limits.Running, cmd.Message = running, say("grow")
	w := b.claim(cmd.ID, b.must(cmd.ID, cmd).(tree.Created).Root)
	w.branches(children)
}

// branches starts so many children and waits for them.
func (w *worker) branches(children int) {
	w.b.t.Helper()
	w.calls(slices.Repeat([]string{"task"}, children)...)
	spawn := tree.SpawnCalls{From: w.from()}
	for i := range children {
		spawn.Children = append(spawn.Children, tree.CallChild{Block: i + 1, Child: child("work")})
	}
	w.b.must(w.session, spawn)
	w.parks()
}

// next announces one run, claims it, and gives its task with its worker.
func (b *bundle) next() (*tree.Task, *worker) {
	b.t.Helper()
	taken := b.take(1)
	if len(taken) != 1 {
		b.t.Fatalf("announced were %+v", taken)
	}
	w := b.claim(taken[0].Session, taken[0].Task)
	return must[*tree.Task](b.t)(b.Task(b.t.Context(), w.session, w.task)), w
}

// readyBranches: a tree grows branch by branch, whether what waits is held back by the session's cap
// or not: what is deeper goes before what is not, and who goes on before who begins.
func readyBranches(t *testing.T, d Dialect) {
	const children, below = 6, 3
	for name, running := range map[string]int{"held back": 3, "due": 100} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, d)
			b.grow(1, children, running)
			var done, begun []tree.TaskID
			for range children {
				top, parent := b.next()
				eq(t, "the depth of what begins when all that began has ended", top.Depth, 1)
				begun = append(begun, top.ID)
				parent.branches(below)
				for range below {
					leaf, w := b.next()
					eq(t, "the depth of what goes first", leaf.Depth, 2)
					eq(t, "its parent", leaf.Parent, top.ID)
					w.answers("done")
				}
				again, w := b.next()
				eq(t, "who goes on when its children have ended", again.ID, top.ID)
				w.answers("done")
				done = append(done, top.ID)
			}
			eq(t, "how many ended one after another", len(done), len(begun))
			root, w := b.next()
			eq(t, "what is left", root.Depth, 0)
			w.answers("done")
			eq(t, "how many wait", len(b.take(10)), 0)
		})
	}
}

// readyTrade: what goes first in its session takes no turn from others: beside one that only grows
// wider, a session has as many as beside one that grows deeper.
func readyTrade(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.grow(1, 40, 100)
	for _, r := range b.take(10) {
		b.claim(r.Session, r.Task).branches(4)
	}
	b.grow(2, 20, 100)
	var turns []tree.SessionID
	seen := map[tree.TaskID]bool{}
	for taken := b.take(4); len(taken) > 0; taken = b.take(4) {
		for _, r := range taken {
			eq(t, "whether it was announced before", seen[r.Task], false)
			seen[r.Task] = true
			turns = append(turns, r.Session)
			b.claim(r.Session, r.Task)
		}
	}
	eq(t, "how many had a turn", len(turns), 30+10*4+20)
	// Its own first turn came before the other session was there.
	for i, id := range turns[1 : 1+2*20] {
		eq(t, "whose turn it is", id, session(1+i%2))
	}
}
