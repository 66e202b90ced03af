package storetest

import (
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// grow opens a session with a cap on running tasks, whose root has so many children and waits for
// them.
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

// readyBranches: a tree grows branch by branch, whether the waiting runs are held back by the
// session's cap or not. Deeper runs go first, and started runs before new ones.
func readyBranches(t *testing.T, d Dialect) {
	const children, below = 6, 3
	for name, running := range map[string]int{"held back": 3, "due": 100} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, d)
			b.grow(1, children, running)
			for range children {
				top, parent := b.next()
				eq(t, "the depth of what begins when all that began has ended", top.Depth, 1)
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
			}
			root, w := b.next()
			eq(t, "what is left", root.Depth, 0)
			w.answers("done")
			eq(t, "how many wait", len(b.take(10)), 0)
		})
	}
}

// readyBeside: a message of a person to a branch goes before runs that have not started, however
// deep these are.
func readyBeside(t *testing.T, d Dialect) {
	b := setup(t, d)
	id := session(1)
	b.grow(1, 4, 100)
	_, w := b.next()
	w.branches(4)
	root := must[[]tree.Task](t)(b.Tree(t.Context(), id))[0]
	said := must[[]tree.Message](t)(b.Transcript(t.Context(), id, root.ID, 0, 0))[0]
	b.must(id, tree.CreateBranch{Task: root.ID, At: said, Agent: general, Message: say("and otherwise?")})
	next, _ := b.next()
	eq(t, "the depth of what goes first", next.Depth, 0)
	next, _ = b.next()
	eq(t, "the depth of what comes then", next.Depth, 2)
}

// deepAndWide opens a session with 30 ready children of the root and 40 below these, and then one
// with so many ready children.
func (b *bundle) deepAndWide(wide int) {
	b.t.Helper()
	b.grow(1, 40, 100)
	for _, r := range b.take(10) {
		b.claim(r.Session, r.Task).branches(4)
	}
	b.grow(2, wide, 100)
}

// readyTradeReleased: a run that was announced and not claimed keeps its turn. If the runs of one
// session are given back while another's are claimed, the first session goes first after that.
func readyTradeReleased(t *testing.T, d Dialect) {
	const lost = 20
	b := setup(t, d)
	b.deepAndWide(60)
	var back []store.Ready
	for len(back) < lost {
		for _, r := range b.take(len(back) + 4) {
			if r.Session == session(1) {
				back = append(back, r)
			} else {
				b.claim(r.Session, r.Task)
			}
		}
	}
	for _, r := range back {
		if err := b.ReleaseReady(t.Context(), r.Session, r.Task, r.Epoch); err != nil {
			t.Fatal(err)
		}
	}
	if c := counts(b.take(lost)); c[session(1)] < lost-5 {
		t.Errorf("of the next %d turns the session has %d", lost, c[session(1)])
	}
}

// readyTrade: runs with precedence take no turn from other sessions: a session has as many turns
// next to a session that grows only wider as next to one that grows deeper.
func readyTrade(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.deepAndWide(20)
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
