package loop

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// work sees to the open calls of the assistant message asked until all are
// closed or the run is parked. appended is the message's own request, nil if it
// was recorded before.
//
// What the orchestrator does on a call's behalf (children, waits) is asked for
// at once, in the order of the calls and in one request; every other tool runs
// at the same time as the rest, once the message is known to be recorded.
func (r *runner) work(ctx context.Context, asked *tree.Message, open []tree.Call, appended Pending) (Outcome, error) {
	w := &batch{runner: r, asked: asked, appended: appended, own: map[int]tree.ToolResult{}}
	defer w.drop()
	var tools []tree.Call
	for _, c := range open {
		switch use := asked.Blocks[c.Ref.Block].(tree.ToolUse); {
		case c.State == tree.CallWaiting || c.State == tree.CallAsking:
			w.waiting = true
		case c.State == tree.CallStarted:
			w.close(c.Ref.Block, tool.Done{IsError: true, Text: outcomeUnknown})
		case w.judge(c, use):
			tools = append(tools, c)
		}
	}
	approved, err := w.answers(ctx)
	if err != nil {
		return Lost, err
	}
	tools = w.delegated(ctx, append(tools, approved...))
	w.spawn()
	if len(tools) > 0 {
		if err := w.recorded(ctx); err != nil {
			return Lost, err
		}
		if err := w.run(ctx, tools); err != nil {
			return Lost, err
		}
	}
	if w.waiting {
		if err := w.hearLaunched(ctx); err != nil {
			return Lost, err
		}
		w.sent = append(w.sent, r.Journal.Park())
	}
	if err := w.recorded(ctx); err != nil {
		return Lost, err
	}
	return w.settle(ctx)
}

// recorded waits until the message that has made the calls is known to be recorded.
func (w *batch) recorded(ctx context.Context) error {
	if w.appended == nil {
		return nil
	}
	reply, err := w.appended.Wait(ctx)
	if err != nil {
		return err
	}
	w.asked.Ordinal, w.appended = reply.Ordinal, nil
	return nil
}

// outcomeUnknown is what the model is told of a call that a crash cut off.
const outcomeUnknown = "outcome unknown: the worker was lost while this call ran. " +
	"It may or may not have had its effect. Look before you repeat it."

// batch is the calls of one assistant message being worked on.
type batch struct {
	*runner
	asked    *tree.Message // the message
	appended Pending       // its own request; nil: it is known to be recorded
	children []Child
	sent     []Pending               // requests whose answers are still to be looked at
	own      map[int]tree.ToolResult // results that this attempt has reported
	waiting  bool                    // some call waits for something outside
	told     int                     // bytes of context that the children get

	questions []question
	commands  []*tool.Command // that were given away, or are to be dropped
	launched  []*once         // those of sent that gave them away and have not been waited for
}

// effect says what kind of tool a name stands for.
func (r *runner) effect(name string) tool.Effect {
	if t := r.tools[name]; t != nil {
		return t.Effect()
	}
	return tool.EffectNone
}

// delegated asks the orchestrator for what calls need that it sees to, in the order
// of the calls, and gives the other calls.
func (w *batch) delegated(ctx context.Context, calls []tree.Call) (own []tree.Call) {
	slices.SortFunc(calls, func(a, b tree.Call) int { return a.Ref.Block - b.Ref.Block })
	for _, c := range calls {
		use := w.asked.Blocks[c.Ref.Block].(tree.ToolUse)
		if w.effect(use.Name) == tool.EffectDelegated {
			w.delegate(ctx, c.Ref.Block, use)
			continue
		}
		own = append(own, c)
	}
	return own
}

// delegate asks the orchestrator for what a call needs.
func (w *batch) delegate(ctx context.Context, block int, use tree.ToolUse) {
	switch o := w.call(ctx, use, tool.Call{}).(type) {
	case tool.Done:
		w.close(block, o)
	case tool.Wait:
		if o.Stop {
			w.stop(block, o.Task)
			return
		}
		w.waiting = true
		w.sent = append(w.sent, w.Journal.Await(block, o.Task, o.Timeout))
	case tool.Spawn:
		background := o.Background && !w.NoBackground
		w.waiting = w.waiting || !background
		w.children = append(w.children, Child{
			Block: block, Agent: o.Agent, Description: w.clean(o.Description), Prompt: w.clean(o.Prompt),
			Model: o.Model, Resume: o.Resume, Background: background, Fork: o.Fork,
			Context: w.context(o.Context), MaxIterations: o.MaxIterations, Timeout: o.Timeout,
			Join: o.Join, JoinFor: o.JoinFor,
		})
	}
}

// contextBytes bounds the context that the children of one message get, since they
// are asked for in one request.
const contextBytes = 4 << 20

// context makes what a child is told beside its prompt fit to be stored.
func (w *batch) context(parts []string) []string {
	var out []string
	for _, text := range parts {
		text = excerpt.Ends(w.clean(text), w.MaxPart)
		if w.told += len(text); w.told > contextBytes {
			text = fmt.Sprintf("[cut: %d bytes of context are left out, the agents of one message get %d in all]", len(text), contextBytes)
		}
		out = append(out, text)
	}
	return out
}

func (w *batch) spawn() {
	if len(w.children) > 0 {
		w.sent = append(w.sent, w.Journal.Spawn(w.children))
	}
}

// run runs the tools of calls at the same time and records each result as it comes.
// When it is asked to, it lets those go on in the background that can.
func (w *batch) run(ctx context.Context, calls []tree.Call) error {
	type result struct {
		block   int
		outcome tool.Outcome
		err     error
	}
	results, background := make(chan result, len(calls)), make(chan struct{})
	for _, c := range calls {
		use := w.asked.Blocks[c.Ref.Block].(tree.ToolUse)
		w.report(use)
		go func() {
			outcome, err := w.perform(ctx, tree.CallRef{Message: w.asked.Ordinal, Block: c.Ref.Block}, use, background)
			results <- result{c.Ref.Block, outcome, err}
		}()
	}
	var failed error
	let := false
	for left := len(calls); left > 0; {
		select {
		case res := <-results:
			left--
			w.sign()
			if res.err != nil {
				failed = res.err
			}
			w.take(res.block, res.outcome, failed == nil && ctx.Err() == nil)
			// A command goes on once it is known to be a task, and calls that still run may wait
			// for what it does. Of those that come together all are asked for first.
			if failed == nil && left > 0 && len(results) == 0 {
				failed = w.hearLaunched(ctx)
			}
		case ordinal := <-w.Release:
			if ordinal == w.asked.Ordinal && !let {
				let = true
				close(background)
			}
		}
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// take records what came of a call, unless the attempt is over.
func (w *batch) take(block int, outcome tool.Outcome, goesOn bool) {
	switch o := outcome.(type) {
	case tool.Done:
		if goesOn {
			w.close(block, o)
		}
	case tool.Spawn:
		w.launch(block, o, goesOn)
	}
}

// perform runs one tool; the start of one that may not run twice is recorded first.
func (w *batch) perform(ctx context.Context, ref tree.CallRef, use tree.ToolUse, background <-chan struct{}) (tool.Outcome, error) {
	if w.effect(use.Name) != tool.EffectNone {
		if _, err := w.Journal.StartCall(ref.Block).Wait(ctx); err != nil {
			return nil, err
		}
	}
	label := fmt.Sprintf("%s-%d-%d", w.Task, ref.Message, ref.Block)
	done := func(string, bool) {}
	if w.Observe != nil {
		ctx, done = w.Observe.Tool(ctx, label, use)
	}
	outcome := w.call(ctx, use, tool.Call{
		Label: label, Background: background, NoBackground: w.NoBackground,
	})
	switch o := outcome.(type) {
	case tool.Done:
		done(o.Text, o.IsError)
		if w.Workspace != nil {
			o.Text = w.Workspace.Excerpt(use.Name, w.clean(o.Text), w.MaxPart)
		}
		return o, nil
	case tool.Spawn:
		if o.Command != nil {
			if o.Command.ByUser {
				done("", false)
			}
			return o, nil
		}
	}
	none := tool.Done{IsError: true, Text: fmt.Sprintf("the tool %s gave no result", use.Name)}
	done(none.Text, true)
	return none, nil
}

// call calls a tool; whatever goes wrong is a result that the model can read.
func (w *batch) call(ctx context.Context, use tree.ToolUse, c tool.Call) (outcome tool.Outcome) {
	t := w.tools[use.Name]
	if t == nil && w.isDeferred(use.Name) {
		return tool.Done{IsError: true, Text: fmt.Sprintf("the tool %q has to be found before it can be called", use.Name)}
	}
	if t == nil {
		return tool.Done{IsError: true, Text: fmt.Sprintf("there is no tool %q; there are: %s", use.Name, w.toolNames())}
	}
	defer func() {
		if p := recover(); p != nil {
			w.Logger.ErrorContext(ctx, "a tool panicked", "tool", use.Name, "panic", p, "stack", string(debug.Stack()))
			outcome = tool.Done{IsError: true, Text: fmt.Sprintf("the tool %s failed inside", use.Name)}
		}
	}()
	c.Input, c.Workspace, c.Past, c.Permissions = use.Input, w.Workspace, w.past, w.layers
	return t.Call(ctx, c)
}

func (w *batch) toolNames() string {
	names := make([]string, len(w.specs))
	for i, s := range w.specs {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// close records the result of a call.
func (w *batch) close(block int, done tool.Done) {
	w.sent = append(w.sent, w.Journal.CloseCall(w.result(block, done)))
}

// deny records that the permissions deny a call, with what it is about and why.
func (w *batch) deny(block int, argument, why string) {
	r := w.result(block, refusedAs(tree.ErrDenied, why))
	w.sent = append(w.sent, w.Journal.DenyCall(r, w.clean(argument), w.clean(why)))
}

// result is the result of a call, as this attempt has it from now on.
func (w *batch) result(block int, done tool.Done) tree.ToolResult {
	r := tree.ToolResult{Block: block, Text: excerpt.Ends(w.clean(done.Text), w.MaxPart), IsError: done.IsError}
	w.own[block] = r
	return r
}

// settle waits for all answers and takes the boundary into the transcript.
func (w *batch) settle(ctx context.Context) (Outcome, error) {
	var boundary *Boundary
	for _, p := range w.sent {
		reply, err := p.Wait(ctx)
		switch {
		case err != nil:
			return Lost, err
		case reply.Parked:
			return Parked, nil
		case reply.Boundary != nil && boundary == nil:
			boundary = reply.Boundary
		case reply.Boundary != nil:
			boundary.News = append(boundary.News, reply.Boundary.News...)
			boundary.Source = cmp.Or(reply.Boundary.Source, boundary.Source) // replicas of the release before say it with news only
			boundary.Spent, boundary.Short = reply.Boundary.Spent, reply.Boundary.Short
		}
	}
	if boundary == nil {
		return Lost, fmt.Errorf("no call of message %d is left to do, but the run is not at a boundary", w.asked.Ordinal)
	}
	if last := len(w.Transcript); last == 0 || w.Transcript[last-1].Ordinal != w.asked.Ordinal {
		w.Transcript = append(w.Transcript, *w.asked)
	}
	w.Transcript = append(w.Transcript, w.results(boundary))
	return ongoing, w.goOn(boundary)
}

// results puts the tool message together, one block a call in the order of the calls.
func (w *batch) results(b *Boundary) tree.Message {
	for _, r := range b.Results {
		w.own[r.Block] = r
	}
	return tree.Message{
		ID: b.ID, Ordinal: b.Ordinal, Role: tree.RoleTool, Blocks: transcript.ResultBlocks(w.asked, w.own),
	}
}

// reportEvery is how often a run says what it is doing, at most.
const reportEvery = time.Second

// report says what the run is doing, unless it has just done so.
func (r *runner) report(use tree.ToolUse) {
	if now := r.Now(); now.Sub(r.reported) >= reportEvery {
		r.reported, r.signed = now, now
		r.Journal.Report(r.clean(tree.Activity(use)))
	}
}

// signEvery is how often a run says that it goes on, as long as something is heard of what it
// does.
const signEvery = 15 * time.Second

// sign says that the run goes on, unless it has lately said so.
func (r *runner) sign() {
	if now := r.Now(); now.Sub(r.signed) >= signEvery {
		r.signed = now
		r.Journal.Report("")
	}
}
