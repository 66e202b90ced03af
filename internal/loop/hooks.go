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
func (r *runner) start(ctx context.Context) error {
	if r.Hooks == nil || !r.HooksDue || r.Spent != "" {
		return nil
	}
	ran := r.boundHooks(r.Hooks.Start(ctx))
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
	return r.goOn(reply.Boundary)
}

// stop records the model's answer as the end of the run, with what the hooks on its
// stop say of it.
func (r *runner) stop(ctx context.Context, answer *tree.Message) (Reply, error) {
	var ran []tree.HookRun
	if r.Hooks != nil {
		ran = r.boundHooks(r.Hooks.Stop(ctx, answer.Text(), r.WentOn))
	}
	left := r.leaves(ctx)
	if !r.TakesLeft {
		answer.AppendLine(left, r.MaxPart)
		left = ""
	}
	switch {
	case ctx.Err() != nil:
		return Reply{}, ctx.Err()
	case len(ran) == 0:
		return r.Journal.End(Ending{Answer: answer, Left: left}).Wait(ctx)
	}
	reply, err := r.Journal.StopHooks(answer, ran, left).Wait(ctx)
	if reply.Boundary != nil && slices.ContainsFunc(ran, func(h tree.HookRun) bool { return h.Outcome == tree.HookBlocked }) {
		r.WentOn++
	}
	return reply, err
}

// boundHooks cuts what hooks say to the bound of a message part.
func (r *runner) boundHooks(ran []tree.HookRun) []tree.HookRun {
	for i := range ran {
		ran[i].Output = excerpt.Ends(r.clean(ran[i].Output), r.MaxPart)
		ran[i].Message = r.clean(ran[i].Message)
	}
	return ran
}
