// Package loop is the agent loop. A run goes from boundary to boundary: model call, assistant
// message, tool calls, tool results, model call. It ends when the model answers without calling a
// tool.
//
// There is only one code path: take the transcript, look at the open calls, continue. A new run, a
// wake, a resume and a redelivery after a crash differ only in what the transcript contains. The
// loop knows no tool by name, and neither database nor network: it records everything in a
// [Journal].
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

// ErrLost means that the attempt is over: the run may belong to another worker now, and nothing
// more is recorded of this attempt.
var ErrLost = errors.New("the attempt is lost")

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes of an attempt.
const (
	ongoing Outcome = iota // the attempt is not over
	Lost                   // the run continues elsewhere, or the context ended
	Parked                 // the run waits, without a worker
	Ended                  // the run has its result
)

// Run is a claimed run, with everything that is needed to continue it.
type Run struct {
	Session tree.SessionID
	Task    tree.TaskID
	Agent   string
	Depth   int

	System     string
	Reminder   string // added to each model call, and not recorded
	Provider   string
	ModelName  string
	Transcript []tree.Message
	OpenCalls  []tree.Call // calls of the last assistant message that have no result

	Authority policy.Authority // what the run may do
	Source    string           // outside party that the run acts for; empty: none

	Iterations    int // model calls made so far
	MaxIterations int
	BudgetSpent   string // why the session's budget is spent; no model is called then; empty: it is not spent
	BudgetShort   bool   // the budget has nothing left for a call in addition to those of other runs
	MaxPartBytes  int    // of one message part
	NoBackground  bool
	TakesCommands bool       // commands can become children, and tasks can be stopped
	ToBackground  <-chan int // ordinals of messages whose commands go to the background; nil: none
	CanCompact    bool       // the older part of the conversation can be summarised
	CompactAt     int        // tokens of the conversation at which it is summarised; 0: depends on the model

	Model         model.Model
	Tools         []tool.Tool
	DeferredTools []tool.Tool // available once the model has found them
	Workspace     *tool.Workspace
	Journal       Journal
	Secrets       *redact.Redactor // never recorded; nil: none are known
	Hooks         Hooks            // nil: none
	StartHooksDue bool             // the start hooks have not run yet
	// Leftovers describes what the run leaves behind in its workspace, for the reader of its
	// result; nil: nothing.
	Leftovers         func(ctx context.Context) string
	TakesLeftovers    bool // the journal takes leftovers separately from an answer, which may not end the run
	HookContinuations int  // how often stop hooks have made the run continue
	Logger            *slog.Logger
	Now               func() time.Time
	Observer          Observer // nil: none
}

// Observer is notified of the tool calls of tasks that the worker executes. Each call has a unique
// name. done is called when the call is over, or when a user moves it to the background. It is not
// called for a command that starts in the background; the orchestrator writes the span of such a
// call.
type Observer interface {
	Tool(ctx context.Context, session tree.SessionID, task tree.TaskID, call string, use tree.ToolUse) (_ context.Context, done func(text string, failed bool))
}

// runner executes a Run.
type runner struct {
	*Run
	layers        policy.Layers // of the run's authority
	tools         map[string]tool.Tool
	specs         []model.ToolSpec
	internalTools map[string]bool // tools that the run may not know of
	lastReport    time.Time       // when the run last reported its activity
	lastKeepAlive time.Time       // when the run last reported anything

	summaryFailed bool // the model did not give a summary when asked
}

// Do executes the run until it ends, parks or is lost. The error says why it was lost, unless the
// journal or the context was the reason.
func (r *Run) Do(ctx context.Context) (Outcome, error) {
	now := r.Now()
	run := &runner{Run: r, layers: r.Authority.Open(), lastReport: now, lastKeepAlive: now}
	run.enableTools()
	outcome, err := run.loop(ctx)
	if errors.Is(err, ErrLost) || ctx.Err() != nil {
		return Lost, nil //nolint:nilerr // being lost is an outcome, not an error
	}
	if err != nil {
		outcome = Lost
	}
	return outcome, err
}

func (r *runner) loop(ctx context.Context) (Outcome, error) {
	if len(r.OpenCalls) > 0 {
		asked := transcript.Unanswered(r.Transcript)
		if asked == nil {
			return Lost, errors.New("calls are open, but the transcript does not end with the message that opened them")
		}
		if out, err := r.runCalls(ctx, asked, r.OpenCalls, nil); out != ongoing || err != nil {
			return out, err
		}
	}
	if err := r.runStartHooks(ctx); err != nil {
		return Lost, err
	}
	for {
		if r.BudgetSpent != "" {
			return r.endWithFailure(ctx, tree.ReasonBudgetExhausted, r.BudgetSpent)
		}
		if r.Iterations >= r.MaxIterations {
			return r.endWithFailure(ctx, tree.ReasonMaxIterations,
				fmt.Sprintf("stopped at the limit of its model calls (%d); resume the task to let it go on", r.Iterations))
		}
		if out, err := r.parkIfBudgetShort(ctx); out != ongoing || err != nil {
			return out, err
		}
		if err := r.compact(ctx); err != nil {
			return Lost, err
		}
		if r.BudgetSpent != "" || r.BudgetShort {
			continue // other runs or the summary have used the budget
		}
		answer, reason, err := r.callModel(ctx)
		if ctx.Err() != nil {
			return Lost, nil //nolint:nilerr // the model failed because the attempt was lost
		}
		if err != nil {
			if out, err := r.handleModelError(ctx, reason, err); out != ongoing || err != nil {
				return out, err
			}
			continue
		}
		r.Iterations++
		var out Outcome
		if calls := transcript.Calls(answer); len(calls) > 0 {
			out, err = r.runCalls(ctx, answer, calls, r.Journal.Append(answer))
		} else {
			out, err = r.endWithAnswer(ctx, answer)
		}
		if out != ongoing || err != nil {
			return out, err
		}
	}
}

// callModel calls the model. If it returns an error, the reason is the run's failure reason.
func (r *runner) callModel(ctx context.Context) (*tree.Message, tree.Reason, error) {
	r.enableTools()
	r.keepAlive()
	preview := &preview{journal: r.Journal, stream: r.Secrets.Stream()}
	answer, err := r.Model.Generate(ctx, &model.Request{
		Provider: r.Provider, Model: r.ModelName, System: r.System, Tools: r.specs, Messages: r.Transcript,
		Reminder: r.reminder(),
		Session:  r.Session, Task: r.Task, Agent: r.Agent, Depth: r.Depth,
	}, func(d model.Delta) {
		r.keepAlive()
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
		if size := tree.TextBytes([]tree.Block{b}); size > r.MaxPartBytes {
			return nil, tree.ReasonProviderError,
				fmt.Errorf("block %d of the model's answer has %d bytes, the bound is %d", i, size, r.MaxPartBytes)
		}
		m.Blocks = append(m.Blocks, b)
	}
	return m, tree.ReasonUnspecified, nil
}

// lastCallReminder is added to the last model call that a run may make. With an answer the run
// completes; another tool call would let it fail without an answer.
const lastCallReminder = "This is the last time that you are asked in this run: nobody would read the results of tools " +
	"that you call now. Call none. Answer with what you have, and say what is left undone."

// reminder returns the reminder for the next model call. A run that may make only one call does
// not get lastCallReminder.
func (r *runner) reminder() string {
	if r.Iterations == 0 || r.Iterations < r.MaxIterations-1 {
		return r.Reminder
	}
	return strings.TrimPrefix(r.Reminder+"\n\n"+lastCallReminder, "\n\n")
}

// answerDefect describes why an answer is not what was asked for, because the reader of a result
// does not see why the model stopped. It returns "" if no defect is known.
func answerDefect(answer *tree.Message) string {
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

// endWithAnswer records the model's answer as the end of the run. The run continues if there is
// news that it has to read first.
func (r *runner) endWithAnswer(ctx context.Context, answer *tree.Message) (Outcome, error) {
	answer.AppendLine(answerDefect(answer), r.MaxPartBytes)
	reply, err := r.endWithHooks(ctx, answer)
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
	return ongoing, r.applyBoundary(reply.Boundary)
}

// applyBoundary applies the boundary from which the run continues.
func (r *runner) applyBoundary(b *Boundary) error {
	if b == nil {
		return errors.New("the run was answered with nothing to go on with")
	}
	r.Transcript = append(r.Transcript, b.News...)
	r.setSource(b.Source)
	r.BudgetSpent, r.BudgetShort = b.BudgetSpent, b.BudgetShort
	return nil
}

// parkIfBudgetShort parks the run if the budget has nothing left for a model call now.
func (r *runner) parkIfBudgetShort(ctx context.Context) (Outcome, error) {
	if !r.BudgetShort {
		return ongoing, nil
	}
	reply, err := r.Journal.Park().Wait(ctx)
	switch {
	case err != nil:
		return Lost, err
	case reply.Parked:
		return Parked, nil
	}
	return ongoing, r.applyBoundary(reply.Boundary)
}

func (r *runner) endWithFailure(ctx context.Context, reason tree.Reason, detail string) (Outcome, error) {
	left := r.leftovers(ctx)
	if left != "" {
		detail += "\n" + left
	}
	if _, err := r.Journal.End(Ending{Reason: reason, Detail: r.clean(detail), Leftovers: left}).Wait(ctx); err != nil {
		return Lost, err
	}
	return Ended, nil
}
