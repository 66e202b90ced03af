package loop

import (
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/tree"
)

// Hooks are what somebody has hung on the start and the stop of a sub-agent's run.
// Whatever goes wrong with one is told in what it gives. When ctx ends they return
// soon with anything; it is dropped.
type Hooks interface {
	// Start asks the hooks on the start of the run.
	Start(ctx context.Context) []tree.HookRun
	// Stop asks those on its stop about an answer. wentOn says how often they have
	// made the run go on.
	Stop(ctx context.Context, answer string, wentOn int) []tree.HookRun
}

// start runs the hooks on the start of the run, and takes what they say into the
// transcript. A crash before that is stored runs them again.
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

// stop records the model's answer as the end of the run, with what the hooks on its
// stop say of it.
func (r *runner) endWithHooks(ctx context.Context, answer *tree.Message) (Reply, error) {
	var ran []tree.HookRun
	if r.Hooks != nil {
		ran = r.boundHookRuns(r.Hooks.Stop(ctx, answer.Text(), r.HookContinuations))
	}
	left := r.leftovers(ctx)
	if !r.TakesLeftovers {
		answer.Tell(left, r.MaxPartBytes)
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

// boundHooks cuts what hooks say to the bound of a message part.
func (r *runner) boundHookRuns(ran []tree.HookRun) []tree.HookRun {
	for i := range ran {
		ran[i].Output = excerpt.Ends(r.clean(ran[i].Output), r.MaxPartBytes)
		ran[i].Message = r.clean(ran[i].Message)
	}
	return ran
}
