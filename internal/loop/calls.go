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

// runCalls processes the open calls of an assistant message until all are closed or the run parks.
// appended is the request that records the message; nil if it is recorded already.
//
// Calls that the orchestrator performs (children, waits) are requested at once, in the order of
// the calls and in one request. All other tools run concurrently, once the message is known to be
// recorded.
func (r *runner) runCalls(ctx context.Context, asked *tree.Message, open []tree.Call, appended Pending) (Outcome, error) {
	w := &batch{runner: r, message: asked, appended: appended, ownResults: map[int]tree.ToolResult{}}
	defer w.dropCommands()
	var tools []tree.Call
	for _, c := range open {
		switch use := asked.Blocks[c.Ref.Block].(tree.ToolUse); {
		case c.State == tree.CallWaiting || c.State == tree.CallAsking:
			w.waiting = true
		case c.State == tree.CallStarted:
			w.closeCall(c.Ref.Block, tool.Done{IsError: true, Text: outcomeUnknownText})
		case w.judge(c, use):
			tools = append(tools, c)
		}
	}
	approved, err := w.waitApprovals(ctx)
	if err != nil {
		return Lost, err
	}
	tools = w.delegateCalls(ctx, append(tools, approved...))
	w.spawn()
	if len(tools) > 0 {
		if err := w.waitAppended(ctx); err != nil {
			return Lost, err
		}
		if err := w.runTools(ctx, tools); err != nil {
			return Lost, err
		}
	}
	if w.waiting {
		if err := w.waitLaunched(ctx); err != nil {
			return Lost, err
		}
		w.sent = append(w.sent, r.Journal.Park())
	}
	if err := w.waitAppended(ctx); err != nil {
		return Lost, err
	}
	return w.settle(ctx)
}

// waitAppended waits until the message with the calls is recorded.
func (w *batch) waitAppended(ctx context.Context) error {
	if w.appended == nil {
		return nil
	}
	reply, err := w.appended.Wait(ctx)
	if err != nil {
		return err
	}
	w.message.Ordinal, w.appended = reply.Ordinal, nil
	return nil
}

// outcomeUnknownText tells the model about a call that a crash interrupted.
const outcomeUnknownText = "outcome unknown: the worker was lost while this call ran. " +
	"It may or may not have had its effect. Look before you repeat it."

// batch is the calls of one assistant message in progress.
type batch struct {
	*runner
	message     *tree.Message
	appended    Pending // the request that records the message; nil: it is recorded
	children    []Child
	sent        []Pending               // requests whose answers settle has to check
	ownResults  map[int]tree.ToolResult // results that this attempt has reported
	waiting     bool                    // a call waits for something outside of the worker
	contextSize int                     // bytes of context that the children get

	questions []question
	commands  []*tool.Command  // passed on to the journal, or to be dropped
	launched  []*cachedPending // those of sent that spawn commands and have not been waited for
}

// toolEffect returns the effect of a tool; EffectNone if there is no such tool.
func (r *runner) toolEffect(name string) tool.Effect {
	if t := r.tools[name]; t != nil {
		return t.Effect()
	}
	return tool.EffectNone
}

// delegateCalls requests what the orchestrator has to do for calls, in the order of the calls. It
// returns the calls that the worker performs itself.
func (w *batch) delegateCalls(ctx context.Context, calls []tree.Call) (own []tree.Call) {
	slices.SortFunc(calls, func(a, b tree.Call) int { return a.Ref.Block - b.Ref.Block })
	for _, c := range calls {
		use := w.message.Blocks[c.Ref.Block].(tree.ToolUse)
		if w.toolEffect(use.Name) == tool.EffectDelegated {
			w.delegate(ctx, c.Ref.Block, use)
			continue
		}
		own = append(own, c)
	}
	return own
}

// delegate requests what the orchestrator has to do for a call.
func (w *batch) delegate(ctx context.Context, block int, use tree.ToolUse) {
	switch o := w.callTool(ctx, use, tool.Call{}).(type) {
	case tool.Done:
		w.closeCall(block, o)
	case tool.Wait:
		if o.Stop {
			w.stopTask(block, o.Task)
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
			Context: w.childContext(o.Context), MaxIterations: o.MaxIterations, Timeout: o.Timeout,
			Join: o.Join, JoinTimeout: o.JoinTimeout,
		})
	}
}

// maxContextBytes bounds the context of all children of one message, because they are spawned in
// one request.
const maxContextBytes = 4 << 20

// childContext makes the context of a child fit to be stored.
func (w *batch) childContext(parts []string) []string {
	var out []string
	for _, text := range parts {
		text = excerpt.Ends(w.clean(text), w.MaxPartBytes)
		if w.contextSize += len(text); w.contextSize > maxContextBytes {
			text = fmt.Sprintf("[cut: %d bytes of context are left out, the agents of one message get %d in all]", len(text), maxContextBytes)
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

// maxParallelCalls is how many tools of one answer run at the same time. Its other calls follow in
// their order, as soon as one of these is over or in the background.
const maxParallelCalls = 16

// callResult is the outcome of a call.
type callResult struct {
	block   int
	outcome tool.Outcome
	err     error
}

// startTools starts to run the tools of calls. queued are the calls that have not started yet; who
// receives one takes it out.
func (w *batch) startTools(ctx context.Context, calls []tree.Call, background <-chan struct{}) (results <-chan callResult, queued <-chan tree.Call) {
	done, todo := make(chan callResult, len(calls)), make(chan tree.Call, len(calls))
	for _, c := range calls {
		w.reportActivity(w.message.Blocks[c.Ref.Block].(tree.ToolUse))
		todo <- c
	}
	close(todo)
	for range min(len(calls), maxParallelCalls) {
		go func() {
			for c := range todo {
				use := w.message.Blocks[c.Ref.Block].(tree.ToolUse)
				result := callResult{block: c.Ref.Block, err: ctx.Err()}
				if result.err == nil {
					result.outcome, result.err = w.runTool(ctx, tree.CallRef{Message: w.message.Ordinal, Block: c.Ref.Block}, use, background)
				}
				done <- result
			}
		}()
	}
	return done, todo
}

// runTools runs the tools of calls concurrently and records each result when it arrives. On
// request it moves the calls that support it to the background.
func (w *batch) runTools(ctx context.Context, calls []tree.Call) error {
	background := make(chan struct{})
	results, queued := w.startTools(ctx, calls, background)
	var failed error
	released := false
	for left := len(calls); left > 0; {
		select {
		case res := <-results:
			left--
			w.keepAlive()
			if res.err != nil {
				failed = res.err
			}
			w.recordOutcome(res.block, res.outcome, failed == nil && ctx.Err() == nil)
			// A command continues once it is known to be a task, and calls that still run may
			// depend on it. If several results are there, all commands are spawned first.
			if failed == nil && left > 0 && len(results) == 0 {
				failed = w.waitLaunched(ctx)
			}
			if failed != nil {
				for range queued { // these need not start any more
					left--
				}
			}
		case ordinal := <-w.ToBackground:
			if ordinal == w.message.Ordinal && !released {
				released = true
				close(background)
			}
		}
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// recordOutcome records the outcome of a call, unless the attempt is over.
func (w *batch) recordOutcome(block int, outcome tool.Outcome, goesOn bool) {
	switch o := outcome.(type) {
	case tool.Done:
		if goesOn {
			w.closeCall(block, o)
		}
	case tool.Spawn:
		w.spawnCommand(block, o, goesOn)
	}
}

// runTool runs one tool. The start of a tool that may not run twice is recorded first.
func (w *batch) runTool(ctx context.Context, ref tree.CallRef, use tree.ToolUse, background <-chan struct{}) (tool.Outcome, error) {
	if w.toolEffect(use.Name) != tool.EffectNone {
		if _, err := w.Journal.StartCall(ref.Block).Wait(ctx); err != nil {
			return nil, err
		}
	}
	label := fmt.Sprintf("%s-%d-%d", w.Task, ref.Message, ref.Block)
	done := func(string, bool) {}
	if w.Observer != nil {
		ctx, done = w.Observer.Tool(ctx, w.Session, w.Task, label, use)
	}
	outcome := w.callTool(ctx, use, tool.Call{
		Label: label, Background: background, NoBackground: w.NoBackground,
	})
	switch o := outcome.(type) {
	case tool.Done:
		done(o.Text, o.IsError)
		if w.Workspace != nil {
			o.Text = w.Workspace.Excerpt(use.Name, w.clean(o.Text), w.MaxPartBytes)
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

// callTool calls a tool. Every failure is a result that the model can read.
func (w *batch) callTool(ctx context.Context, use tree.ToolUse, c tool.Call) (outcome tool.Outcome) {
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
	c.Input, c.Workspace, c.Secrets, c.Past, c.Permissions = use.Input, w.Workspace, w.Secrets, w.pastCalls, w.layers
	return t.Call(ctx, c)
}

func (w *batch) toolNames() string {
	names := make([]string, len(w.specs))
	for i, s := range w.specs {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// closeCall records the result of a call.
func (w *batch) closeCall(block int, done tool.Done) {
	w.sent = append(w.sent, w.Journal.CloseCall(w.toolResult(block, done)))
}

// denyCall records that the permissions deny a call, with its argument and the reason.
func (w *batch) denyCall(block int, argument, why string) {
	r := w.toolResult(block, refusalResult(tree.ErrDenied, why))
	w.sent = append(w.sent, w.Journal.DenyCall(r, w.clean(argument), w.clean(why)))
}

// toolResult makes the result of a call fit to be stored and remembers it.
func (w *batch) toolResult(block int, done tool.Done) tree.ToolResult {
	r := tree.ToolResult{Block: block, Text: excerpt.Ends(w.clean(done.Text), w.MaxPartBytes), IsError: done.IsError}
	w.ownResults[block] = r
	return r
}

// settle waits for all answers and adds the boundary to the transcript.
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
			boundary.Source = cmp.Or(reply.Boundary.Source, boundary.Source) // replicas of the previous release set it only together with news
			boundary.BudgetSpent, boundary.BudgetShort = reply.Boundary.BudgetSpent, reply.Boundary.BudgetShort
		}
	}
	if boundary == nil {
		return Lost, fmt.Errorf("no call of message %d is left to do, but the run is not at a boundary", w.message.Ordinal)
	}
	if last := len(w.Transcript); last == 0 || w.Transcript[last-1].Ordinal != w.message.Ordinal {
		w.Transcript = append(w.Transcript, *w.message)
	}
	w.Transcript = append(w.Transcript, w.toolMessage(boundary))
	return ongoing, w.applyBoundary(boundary)
}

// toolMessage assembles the tool message, one block for each call in the order of the calls.
func (w *batch) toolMessage(b *Boundary) tree.Message {
	for _, r := range b.Results {
		w.ownResults[r.Block] = r
	}
	return tree.Message{
		ID: b.ID, Ordinal: b.Ordinal, Role: tree.RoleTool, Blocks: transcript.ResultBlocks(w.message, w.ownResults),
	}
}

// reportInterval is the minimum interval between reports of what a run does.
const reportInterval = time.Second

// reportActivity reports what the run does, at most once in reportInterval.
func (r *runner) reportActivity(use tree.ToolUse) {
	if now := r.Now(); now.Sub(r.lastReport) >= reportInterval {
		r.lastReport, r.lastKeepAlive = now, now
		r.Journal.Report(r.clean(tree.Activity(use)))
	}
}

// keepAliveInterval is how often a run reports that it continues, while its model or tools show
// progress.
const keepAliveInterval = 15 * time.Second

// keepAlive reports that the run continues, unless it has reported something lately.
func (r *runner) keepAlive() {
	if now := r.Now(); now.Sub(r.lastKeepAlive) >= keepAliveInterval {
		r.lastKeepAlive = now
		r.Journal.Report("")
	}
}
