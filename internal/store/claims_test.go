package store

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// TestIsClaim: a claim is left out of its task's row only if each column that it would write follows
// from the attempt.
func TestIsClaim(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1_000_000).UTC()
	offered := func() *tree.Task {
		task := &tree.Task{}
		task.State, task.Epoch = tree.StatePending, 3
		return task
	}
	claimed := func() *tree.Task {
		task := offered()
		task.State, task.StartedAt, task.MovedAt = tree.StateRunning, at, at
		task.CurrentAttempt = tree.CurrentAttempt{Nonce: 7, Attach: 1, Replica: "r", Worker: "w", ClaimedAt: at}
		return task
	}
	attempt := &tree.Attempt{Epoch: 3, Attach: 1, Replica: "r", Worker: "w", Nonce: 7, At: at}
	if !isClaim(offered(), claimed(), attempt) {
		t.Error("a claim is not known as one")
	}
	if isClaim(offered(), claimed(), nil) || isClaim(claimed(), claimed(), attempt) {
		t.Error("what is no claim is taken for one")
	}
	before := offered()
	before.StartedAt = at.Add(-time.Hour)
	if isClaim(before, claimed(), attempt) {
		t.Error("the start of the run's first attempt is lost")
	}
	for i := taskTable.fixed; i < taskTable.updates[0].end; i++ {
		other := claimed()
		alter(t, taskRow(other)[i])
		if isClaim(offered(), other, attempt) {
			t.Errorf("%s does not follow from the attempt, and is not written", taskTable.columns[i])
		}
	}
}
