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
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// ErrLost says that the attempt is over: the run is somebody else's by now, and
// nothing more will be recorded of this one.
var ErrLost = errors.New("the attempt is lost")

// Outcome is how an attempt came to its end.
type Outcome uint8

// The outcomes of an attempt.
const (
	Lost   Outcome = iota // the run goes on elsewhere, or the context ended
	Parked                // the run waits and holds no worker
	Ended                 // the run has its result
)

// Run is a run as it was claimed, and all that is needed to go on with it.
type Run struct {
	Session tree.SessionID
	Task    tree.TaskID
	Agent   string
	Depth   int

	System     string
	ModelName  string
	Transcript []tree.Message
	Open       []tree.Call // the calls of the last assistant message without a result

	Iterations    int // model calls made so far
	MaxIterations int
	MaxPart       int // bytes of one message part

	Model     model.Model
	Tools     []tool.Tool
	Workspace *tool.Workspace
	Journal   Journal
	Logger    *slog.Logger
	Now       func() time.Time
}

// runner is a Run being carried forward.
type runner struct {
	*Run
	tools    map[string]tool.Tool
	specs    []model.ToolSpec
	reported time.Time
}

// Do carries the run forward until it ends, parks or is lost. The error says
// why it was lost, if that is not what the journal or the context said.
func (r *Run) Do(ctx context.Context) (Outcome, error) {
	run := &runner{Run: r, tools: map[string]tool.Tool{}, reported: r.Now()}
	for _, t := range r.Tools {
		spec := t.Spec()
		run.tools[spec.Name] = t
		run.specs = append(run.specs, spec)
	}
	outcome, err := run.loop(ctx)
	if errors.Is(err, ErrLost) || ctx.Err() != nil {
		return Lost, nil //nolint:nilerr // being lost is an outcome, told to nobody as an error
	}
	return outcome, err
}

func (r *runner) loop(ctx context.Context) (Outcome, error) {
	if len(r.Open) > 0 {
		asked, err := r.lastAnswer()
		if err != nil {
			return Lost, err
		}
		if parked, err := r.work(ctx, asked, r.Open, nil); parked || err != nil {
			return Parked, err
		}
	}
	for {
		if r.Iterations >= r.MaxIterations {
			return r.fail(ctx, tree.ReasonMaxIterations,
				fmt.Sprintf("stopped after %d model calls; resume the task to let it go on", r.Iterations))
		}
		answer, reason, err := r.ask(ctx)
		if ctx.Err() != nil {
			return Lost, nil //nolint:nilerr // the model failed because the attempt was lost
		}
		if err != nil {
			return r.fail(ctx, reason, err.Error())
		}
		r.Iterations++
		calls := openedBy(answer)
		if len(calls) == 0 {
			outcome, goOn, err := r.end(ctx, answer)
			if !goOn || err != nil {
				return outcome, err
			}
			continue
		}
		if parked, err := r.work(ctx, answer, calls, r.Journal.Append(answer)); parked || err != nil {
			return Parked, err
		}
	}
}

// lastAnswer gives the assistant message whose calls are open.
func (r *runner) lastAnswer() (*tree.Message, error) {
	if n := len(r.Transcript); n > 0 && r.Transcript[n-1].Role == tree.RoleAssistant {
		return &r.Transcript[n-1], nil
	}
	return nil, errors.New("calls are open, but the transcript does not end with the message that opened them")
}

// ask calls the model. The reason says how the run fails if there is an error.
func (r *runner) ask(ctx context.Context) (*tree.Message, tree.Reason, error) {
	answer, err := r.Model.Generate(ctx, &model.Request{
		Model: r.ModelName, System: r.System, Tools: r.specs, Messages: r.Transcript,
		Session: r.Session, Task: r.Task, Agent: r.Agent, Depth: r.Depth,
	}, func(d model.Delta) { r.Journal.Delta(d.Text, d.Thinking) })
	if err != nil {
		return nil, tree.ReasonProviderError, err
	}
	if n := len(answer.Blocks); n > tree.MaxBlocks {
		return nil, tree.ReasonProviderError, fmt.Errorf("the model's answer has %d parts, the bound is %d", n, tree.MaxBlocks)
	}
	m := &tree.Message{
		Role: tree.RoleAssistant, Model: valid(answer.Model), Usage: answer.Usage, Stop: answer.Stop,
		Blocks: make([]tree.Block, 0, len(answer.Blocks)),
	}
	for i, b := range answer.Blocks {
		b = validText(b)
		if size := partSize(b); size > r.MaxPart {
			return nil, tree.ReasonProviderError,
				fmt.Errorf("block %d of the model's answer has %d bytes, the bound is %d", i, size, r.MaxPart)
		}
		m.Blocks = append(m.Blocks, b)
	}
	return m, tree.ReasonUnspecified, nil
}

// end records the model's answer as the end of the run. goOn is set if there is
// news that the run has to take in first.
func (r *runner) end(ctx context.Context, answer *tree.Message) (_ Outcome, goOn bool, _ error) {
	reply, err := r.Journal.End(Ending{Answer: answer}).Wait(ctx)
	switch {
	case err != nil:
		return Lost, false, err
	case reply.Ended:
		return Ended, false, nil
	case reply.Parked:
		return Parked, false, nil
	case reply.Boundary == nil:
		return Lost, false, errors.New("the end of the run was answered with nothing to go on with")
	}
	answer.Ordinal = reply.Ordinal
	r.Transcript = append(append(r.Transcript, *answer), reply.Boundary.News...)
	return Lost, true, nil
}

func (r *runner) fail(ctx context.Context, reason tree.Reason, detail string) (Outcome, error) {
	detail = strings.ToValidUTF8(detail, "�")
	if _, err := r.Journal.End(Ending{Reason: reason, Detail: detail}).Wait(ctx); err != nil {
		return Lost, err
	}
	return Ended, nil
}

// openedBy gives the calls that an assistant message opens.
func openedBy(m *tree.Message) []tree.Call {
	var calls []tree.Call
	for i, b := range m.Blocks {
		if use, ok := b.(tree.ToolUse); ok {
			calls = append(calls, tree.Call{Ref: tree.CallRef{Block: i}, Tool: use.Name, State: tree.CallOpen})
		}
	}
	return calls
}
