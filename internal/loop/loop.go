// Package loop is the turn machine. A run is a loop over durable boundaries:
// model call, assistant message, tool calls, tool results, model call. It ends
// when the model answers without calling a tool.
//
// There is one path: take the transcript, look at the open calls, go on. A fresh
// run, a wake, a resume and a redelivery after a crash differ only in what the
// transcript holds. The loop knows no tool by name and neither database nor
// network: it records what happens in a [Journal].
package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// ErrLost says that the attempt is over: the run is somebody else's by now, and
// nothing more will be recorded of this one.
var ErrLost = errors.New("the attempt is lost")

// Outcome is how an attempt came to its end.
type Outcome uint8

// The outcomes of an attempt.
const (
	ongoing Outcome = iota // it is not over
	Lost                   // the run goes on elsewhere, or the context ended
	Parked                 // the run waits and holds no worker
	Ended                  // the run has its result
)

// Run is a run as it was claimed, and all that is needed to go on with it.
type Run struct {
	Session tree.SessionID
	Task    tree.TaskID
	Agent   string
	Depth   int

	System     string
	Reminder   string // given to the model with each call, and to nobody else
	Provider   string
	ModelName  string
	Transcript []tree.Message
	Open       []tree.Call // the calls of the last assistant message without a result

	Authority policy.Authority // what the run may do
	Source    string           // who outside it is on behalf of; empty: nobody

	Iterations    int // model calls made so far
	MaxIterations int
	Spent         string // how the session's budget is spent: no model is called then; empty: it is not
	Short         bool   // the budget has nothing left for a call beside those of other runs
	MaxPart       int    // bytes of one message part
	NoBackground  bool
	TakesCommands bool       // commands can be children, and tasks can be ended
	Release       <-chan int // ordinals of messages whose commands are to go on in the background; nil: none
	Compacts      bool       // the older part of its conversation can be summed up
	CompactAt     int        // tokens of the conversation at which it is; 0: that depends on its model

	Model     model.Model
	Tools     []tool.Tool
	Deferred  []tool.Tool // handed over once the model has found them
	Workspace *tool.Workspace
	Journal   Journal
	Secrets   *redact.Redactor // that must not be recorded; nil: none are known
	Hooks     Hooks            // nil: none
	HooksDue  bool             // those on the start have to be run
	// Leaves says what the run leaves behind where it has worked, for whoever reads its
	// result; nil: nothing.
	Leaves    func(ctx context.Context) string
	TakesLeft bool // that can be said apart from an answer, which may not end the run
	WentOn    int  // how often those on the stop have made the run go on
	Logger    *slog.Logger
	Now       func() time.Time
	Observe   Observer // nil: nobody does
}

// Observer is told of calls of tools that the worker carries out, each by a name that
// no other has; done is called when one is over, or goes on in the background since a user
// wants that. It is not called of one that begins there: who makes a task of it tells of the
// call.
type Observer interface {
	Tool(ctx context.Context, call string, use tree.ToolUse) (_ context.Context, done func(text string, failed bool))
}

// runner is a Run being carried forward.
type runner struct {
	*Run
	layers   policy.Layers // of its authority
	tools    map[string]tool.Tool
	specs    []model.ToolSpec
	internal map[string]bool // tools that the run may not know
	reported time.Time       // when it last said what it is doing
	signed   time.Time       // when it last said anything of that kind

	noSummary bool // the model gave none when it was asked
}

// Do carries the run forward until it ends, parks or is lost. The error says
// why it was lost, if that is not what the journal or the context said.
func (r *Run) Do(ctx context.Context) (Outcome, error) {
	now := r.Now()
	run := &runner{Run: r, layers: r.Authority.Open(), reported: now, signed: now}
	run.handOverTools()
	outcome, err := run.loop(ctx)
	if errors.Is(err, ErrLost) || ctx.Err() != nil {
		return Lost, nil //nolint:nilerr // being lost is an outcome, told to nobody as an error
	}
	if err != nil {
		outcome = Lost
	}
	return outcome, err
}

func (r *runner) loop(ctx context.Context) (Outcome, error) {
	if len(r.Open) > 0 {
		asked := transcript.Unanswered(r.Transcript)
		if asked == nil {
			return Lost, errors.New("calls are open, but the transcript does not end with the message that opened them")
		}
		if out, err := r.work(ctx, asked, r.Open, nil); out != ongoing || err != nil {
			return out, err
		}
	}
	if err := r.start(ctx); err != nil {
		return Lost, err
	}
	for {
		if r.Spent != "" {
			return r.fail(ctx, tree.ReasonBudgetExhausted, r.Spent)
		}
		if r.Iterations >= r.MaxIterations {
			return r.fail(ctx, tree.ReasonMaxIterations,
				fmt.Sprintf("stopped after %d model calls; resume the task to let it go on", r.Iterations))
		}
		if out, err := r.makeWay(ctx); out != ongoing || err != nil {
			return out, err
		}
		if err := r.compact(ctx); err != nil {
			return Lost, err
		}
		if r.Spent != "" || r.Short {
			continue // since others have used it, or the summary has
		}
		answer, reason, err := r.ask(ctx)
		if ctx.Err() != nil {
			return Lost, nil //nolint:nilerr // the model failed because the attempt was lost
		}
		if err != nil {
			if out, err := r.refused(ctx, reason, err); out != ongoing || err != nil {
				return out, err
			}
			continue
		}
		r.Iterations++
		var out Outcome
		if calls := transcript.Calls(answer); len(calls) > 0 {
			out, err = r.work(ctx, answer, calls, r.Journal.Append(answer))
		} else {
			out, err = r.end(ctx, answer)
		}
		if out != ongoing || err != nil {
			return out, err
		}
	}
}

// ask calls the model. The reason says how the run fails if there is an error.
func (r *runner) ask(ctx context.Context) (*tree.Message, tree.Reason, error) {
	r.handOverTools()
	r.sign()
	preview := &preview{journal: r.Journal, stream: r.Secrets.Stream()}
	answer, err := r.Model.Generate(ctx, &model.Request{
		Provider: r.Provider, Model: r.ModelName, System: r.System, Tools: r.specs, Messages: r.Transcript,
		Reminder: r.reminder(),
		Session:  r.Session, Task: r.Task, Agent: r.Agent, Depth: r.Depth,
	}, func(d model.Delta) {
		r.sign()
		preview.show(d)
	})
	if err != nil {
		return nil, tree.ReasonProviderError, err
	}
	preview.flush()
	if n := len(answer.Blocks); n > tree.MaxBlocks {
		return nil, tree.ReasonProviderError, fmt.Errorf("the model's answer has %d parts, the bound is %d", n, tree.MaxBlocks)
	}
	m := &tree.Message{
		Role: tree.RoleAssistant, Model: r.clean(answer.Model), Usage: answer.Usage, Stop: answer.Stop,
		Blocks: make([]tree.Block, 0, len(answer.Blocks)),
	}
	for i, b := range answer.Blocks {
		b = r.cleanBlock(b)
		if size := partSize(b); size > r.MaxPart {
			return nil, tree.ReasonProviderError,
				fmt.Errorf("block %d of the model's answer has %d bytes, the bound is %d", i, size, r.MaxPart)
		}
		m.Blocks = append(m.Blocks, b)
	}
	return m, tree.ReasonUnspecified, nil
}

// lastCall is what a model reads before the last of the calls that a run may make of it: with
// an answer the run completes, where one more call of a tool would let it fail with nothing said.
const lastCall = "This is the last time that you are asked in this run: nobody would read the results of tools " +
	"that you call now. Call none. Answer with what you have, and say what is left undone."

// reminder is what the model is reminded of with the next call. What a run may do with one
// call in all, it is not told.
func (r *runner) reminder() string {
	if r.Iterations == 0 || r.Iterations < r.MaxIterations-1 {
		return r.Reminder
	}
	return strings.TrimPrefix(r.Reminder+"\n\n"+lastCall, "\n\n")
}

// lacks says of an answer why it is not what was asked for: who reads it as a result does not
// see why the model stopped. Empty: nothing is known to be wrong with it.
func lacks(answer *tree.Message) string {
	switch {
	case answer.Stop == tree.StopMaxTokens:
		return "[The answer was cut at the limit of its length.]"
	case answer.Stop == tree.StopRefusal:
		return "[The model declined to answer. What comes after that is likely to be declined too: go on from before it, with a branch.]"
	case strings.TrimSpace(answer.Text()) == "":
		return "[The model gave an empty answer.]"
	}
	return ""
}

// end records the model's answer as the end of the run, which goes on if there is news
// that it has to take in first.
func (r *runner) end(ctx context.Context, answer *tree.Message) (Outcome, error) {
	answer.AppendLine(lacks(answer), r.MaxPart)
	reply, err := r.stop(ctx, answer)
	switch {
	case err != nil:
		return Lost, err
	case reply.Ended:
		return Ended, nil
	case reply.Parked:
		return Parked, nil
	}
	answer.Ordinal = reply.Ordinal
	r.Transcript = append(r.Transcript, *answer)
	return ongoing, r.goOn(reply.Boundary)
}

// goOn takes in the boundary from which the run goes on.
func (r *runner) goOn(b *Boundary) error {
	if b == nil {
		return errors.New("the run was answered with nothing to go on with")
	}
	r.Transcript = append(r.Transcript, b.News...)
	r.turnTo(b.Source)
	r.Spent, r.Short = b.Spent, b.Short
	return nil
}

// makeWay gives the run back if the budget has nothing left for a call of it just now.
func (r *runner) makeWay(ctx context.Context) (Outcome, error) {
	if !r.Short {
		return ongoing, nil
	}
	reply, err := r.Journal.Park().Wait(ctx)
	switch {
	case err != nil:
		return Lost, err
	case reply.Parked:
		return Parked, nil
	}
	return ongoing, r.goOn(reply.Boundary)
}

func (r *runner) fail(ctx context.Context, reason tree.Reason, detail string) (Outcome, error) {
	left := r.leaves(ctx)
	if left != "" {
		detail += "\n" + left
	}
	if _, err := r.Journal.End(Ending{Reason: reason, Detail: r.clean(detail), Left: left}).Wait(ctx); err != nil {
		return Lost, err
	}
	return Ended, nil
}
