package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// taskColumns maps the columns of runs to those of a task's current run, where the names differ.
var taskColumns = map[string]string{
	"task": "id", "input_tokens": "run_input_tokens", "output_tokens": "run_output_tokens",
	"cache_read_tokens": "run_cache_read_tokens", "cache_write_tokens": "run_cache_write_tokens",
	"cost_micros": "run_cost_micros", "priced_tokens": "run_priced_tokens", "tool_uses": "run_tools",
}

// endedRuns is a subquery for all ended runs, as if each had a row in runs. A task's last run has
// no row there, except those of earlier releases, which are found twice.
func endedRuns() string {
	own := runTable.columns
	ofTask := slices.Clone(own)
	for i, c := range own {
		if named, differs := taskColumns[c]; differs {
			ofTask[i] = named
		}
	}
	return fmt.Sprintf("(SELECT %s FROM runs UNION ALL SELECT %s FROM tasks WHERE state >= %d) AS runs",
		strings.Join(own, ", "), strings.Join(ofTask, ", "), tree.StateCompleted)
}
