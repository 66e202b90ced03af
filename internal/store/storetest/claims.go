package storetest

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// claims: every read of a task says that its run was claimed, and by whom, also after a restart;
// and the worker continues with what was claimed before it.
func claims(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "hello")
	w := b.claim(id, root)
	child := w.spawns(w.calls("task"), 1, true)
	for epoch := int64(1); epoch <= 2; epoch++ { // the second attempt of the run
		b.clock.advance(time.Second)
		token := tree.Token{Epoch: epoch, Nonce: 1<<63 + uint64(epoch)}
		claimed := b.must(id, tree.Claim{Task: child, Token: token, Worker: "w-2"}).(*tree.Claimed).Task
		b.readsTask(claimed)
		b.clock.advance(time.Second)
		b.restart()
		b.readsTask(claimed)
		found := must[[]store.Attempt](t)(b.AttemptsByNonce(t.Context(), "w-2", token.Nonce))
		if len(found) != 1 || found[0].Task != child {
			t.Errorf("the attempts are %+v", found)
		}
		eq(t, "attempts with another nonce", len(must[[]store.Attempt](t)(b.AttemptsByNonce(t.Context(), "w-2", 1))), 0)
		attached := b.must(id, tree.Reattach{Task: child, Token: token}).(tree.Reattached).Task
		eq(t, "since when the run is claimed", attached.ClaimedAt, claimed.ClaimedAt)
		b.readsTask(attached)
		b.restart()
		b.readsTask(attached)
		if epoch == 1 {
			b.must(id, tree.Redeliver{Task: child, Epoch: epoch, Attach: attached.Attach})
		}
	}
	again := &worker{b: b, session: id, task: child, token: tree.Token{Epoch: 2, Nonce: 1<<63 + 2}}
	from := again.from()
	from.Attach = 2
	b.must(id, tree.End{From: from, Answer: &tree.Message{Blocks: say("done"), Model: "m-1", Stop: tree.StopEndTurn}})
	eq(t, "the state", must[*tree.Task](t)(b.Task(t.Context(), id, child)).State, tree.StateCompleted)
	eq(t, "the replica's attempts", len(must[[]store.Attempt](t)(b.AttemptsOfReplica(t.Context(), replica))), 1)
}

// readsTask checks that each way to read a task gives this.
func (b *bundle) readsTask(want tree.Task) {
	b.t.Helper()
	ctx := b.t.Context()
	eq(b.t, "the task", *must[*tree.Task](b.t)(b.Task(ctx, want.Session, want.ID)), want)
	eq(b.t, "the tenant's task", *must[*tree.Task](b.t)(b.TaskOf(ctx, "acme", want.Session, want.ID)), want)
	eq(b.t, "the task's status", must[store.TaskStatus](b.t)(b.TaskStatus(ctx, "acme", want.Session, want.ID)), store.TaskStatus{Task: want.ID, Run: want.Run, State: want.State})
	eq(b.t, "the task of its parent", must[store.Page[tree.Task]](b.t)(b.Tasks(ctx, want.Session, want.Parent, "", 10)).Rows[0], want)
	eq(b.t, "the task of its session", must[store.Page[tree.Task]](b.t)(b.Tasks(ctx, want.Session, tree.TaskID{}, "", 10)).Rows[1], want)
	eq(b.t, "the task of the tree", must[[]tree.Task](b.t)(b.Tree(ctx, want.Session))[1], want)
}
