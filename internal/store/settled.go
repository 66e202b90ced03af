package store

import (
	"fmt"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// The end of a run closes the calls that wait for it, in the same transaction. Their rows are not
// written: statements that read calls see whether the run has ended. So the call of a child is
// written once, when it is spawned.

// outcomeOfCall is the state in which the run has ended that a call waits for; NULL if it has not,
// or if the call waits for none.
var outcomeOfCall = fmt.Sprintf(`CASE calls.state WHEN %d THEN (
  SELECT runs.state FROM %s WHERE runs.session = calls.session AND runs.task = calls.child AND runs.run = calls.child_run LIMIT 1
) END`, tree.CallWaiting, endedRuns())

// settledColumns are the columns of calls that follow from the end of a run.
var settledColumns = map[string]string{
	"state":      fmt.Sprintf("CASE WHEN (%s) IS NULL THEN calls.state ELSE %d END", outcomeOfCall, tree.CallClosed),
	"is_error":   fmt.Sprintf("coalesce((%s) <> %d, calls.is_error)", outcomeOfCall, tree.StateCompleted),
	"by_outcome": fmt.Sprintf("coalesce((%s) > 0, calls.by_outcome)", outcomeOfCall),
}

// columnsWithOutcomes lists the columns of calls.
func columnsWithOutcomes(columns []string) []string {
	columns = slices.Clone(columns)
	for i, c := range columns {
		if settled, ok := settledColumns[c]; ok {
			columns[i] = settled + " AS " + c
		}
	}
	return columns
}

// refersToOutcome finds calls that are closed with the outcome of a run, if it has ended.
var refersToOutcome = fmt.Sprintf("(calls.by_outcome OR calls.state = %d)", tree.CallWaiting)
