package main

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// child does nothing.
func child(workflow.Context) (string, error) { return "done", nil }

// fanOut runs n children at once and waits for all.
func fanOut(ctx workflow.Context, n int) error {
	var running []workflow.ChildWorkflowFuture
	if n > maxChildren {
		for left := n; left > 0; left -= maxChildren {
			running = append(running, workflow.ExecuteChildWorkflow(ctx, fanOut, min(left, maxChildren)))
		}
	} else {
		for range n {
			running = append(running, workflow.ExecuteChildWorkflow(ctx, child))
		}
	}
	for _, r := range running {
		if err := r.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// oneByOne runs n children one after another. It looks at the real clock, not at the
// workflow's, which stands still until a decision is recorded. A replay would make the
// times wrong; there is none, since the worker keeps the workflow in its cache.
func oneByOne(ctx workflow.Context, n int) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if err := workflow.ExecuteChildWorkflow(ctx, child).Get(ctx, nil); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}
