package store

import (
	"fmt"

	"github.com/coppice-run/coppice/internal/tree"
)

// A claim is stored in the run's row of attempts alone. The row of its task is as it was before,
// pending, until something else of the task changes. Most runs say nothing before they end, so
// their task's row is written twice instead of three times. Statements that read tasks join the
// row of attempts: a pending task with an attempt of its epoch is running.

// claimUpdate is the statement that would write a claim to the row of its task.
var claimUpdate = taskTable.updates[0].name

// isClaim reports whether a task differs from its row as the attempt says, and in nothing else that
// claimUpdate writes.
func isClaim(stored, t *tree.Task, a *tree.Attempt) bool {
	if a == nil || stored.State != tree.StatePending || t.State != tree.StateRunning {
		return false
	}
	started := stored.StartedAt
	if started.IsZero() {
		started = a.At
	}
	return t.StartedAt.Equal(started) && t.ClaimedAt.Equal(a.At) && t.MovedAt.Equal(a.At) &&
		t.Epoch == stored.Epoch && t.Epoch == a.Epoch && t.LastSeq == stored.LastSeq &&
		t.Nonce == a.Nonce && t.Attach == a.Attach && t.Replica == a.Replica && t.Worker == a.Worker
}

// claimOfTask finds the claim of a task. A row of tasks that is not pending may know more than its
// claim, and has none.
var claimOfTask = fmt.Sprintf("claim.session = tasks.session AND claim.task = tasks.id AND claim.epoch = tasks.epoch AND tasks.state = %d", tree.StatePending)

// claimedColumns are the columns of tasks that follow from a claim, if there is one.
var claimedColumns = map[string]string{
	"state":      fmt.Sprintf("CASE WHEN claim.epoch IS NULL THEN tasks.state ELSE %d END", tree.StateRunning),
	"started_at": "coalesce(tasks.started_at, claim.at)",
	"nonce":      "coalesce(claim.nonce, tasks.nonce)",
	"attach":     "coalesce(claim.attach, tasks.attach)",
	"replica":    "coalesce(claim.replica, tasks.replica)",
	"worker":     "coalesce(claim.worker, tasks.worker)",
	"claimed_at": "coalesce(claim.at, tasks.claimed_at)",
	"moved_at":   "coalesce(claim.at, tasks.moved_at)",
}

// columnsWithClaims lists the columns of tasks, joined with their claims.
func columnsWithClaims() []string {
	columns := make([]string, len(taskTable.columns))
	for i, c := range taskTable.columns {
		columns[i] = columnWithClaim(c)
	}
	return columns
}

func columnWithClaim(column string) string {
	if claimed, ok := claimedColumns[column]; ok {
		return claimed + " AS " + column
	}
	return "tasks." + column
}
