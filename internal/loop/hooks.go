package loop

import (
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/tree"
)

// Hooks are the hooks on the start and stop of a sub-agent's run. A failing hook is reported in
// the results. When ctx ends they return soon, and the results are dropped.
type Hooks interface {
	// Start runs the start hooks.
	Start(ctx context.Context) []tree.HookRun
	// Stop runs the stop hooks on an answer. wentOn is how often they have made the run continue.
	Stop(ctx context.Context, answer string, wentOn int) []tree.HookRun
}

// runStartHooks runs the start hooks and adds what they say to the transcript. After a crash
// before that is stored, they run again.
func (r *runner) runStartHooks(ctx context.Context) error {
	if r.Hooks == nil || !r.StartHooksDue || r.BudgetSpent != "" {
		return nil
	}
	ran := r.boundHookRuns(r.Hooks.Start(ctx))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(ran) == 0:
		return nil
	}
	reply, err := r.Journal.StartHooks(ran).Wait(ctx)
	if err != nil {
		return err
	}
	return r.applyBoundary(reply.Boundary)
}

// endWithHooks records the model's answer as the end of the run, with the results of the stop
// hooks.
func (r *runner) endWithHooks(ctx context.Context, answer *tree.Message) (Reply, error) {
	var ran []tree.HookRun
	if r.Hooks != nil {
		ran = r.boundHookRuns(r.Hooks.Stop(ctx, answer.Text(), r.HookContinuations))
	}
	left := r.leftovers(ctx)
	if !r.TakesLeftovers {
		answer.AppendLine(left, r.MaxPartBytes)
		left = ""
	}
	switch {
	case ctx.Err() != nil:
		return Reply{}, ctx.Err()
	case len(ran) == 0:
		return r.Journal.End(Ending{Answer: answer, Leftovers: left}).Wait(ctx)
	}
	reply, err := r.Journal.StopHooks(answer, ran, left).Wait(ctx)
	if reply.Boundary != nil && slices.ContainsFunc(ran, func(h tree.HookRun) bool { return h.Outcome == tree.HookBlocked }) {
		r.HookContinuations++
	}
	return reply, err
}

// boundHookRuns redacts the output of hooks and cuts it to the size of a message part.
func (r *runner) boundHookRuns(ran []tree.HookRun) []tree.HookRun {
	for i := range ran {
		ran[i].Output = excerpt.Ends(r.clean(ran[i].Output), r.MaxPartBytes)
		ran[i].Message = r.clean(ran[i].Message)
	}
	return ran
}
