// Package tool is the contract between the agent loop and the tools a model can
// call, and the tools themselves: one file a tool, what the model is told about
// it in a Markdown file beside it.
package tool

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tree"
)

// Tool is something a model can call. A tool is shared by all attempts of a
// worker, so Call is called from many goroutines at once; what differs from run
// to run comes in with the Call.
type Tool interface {
	// Spec is what the model is told.
	Spec() model.ToolSpec
	// Effect says what a call leaves behind, and so how a crash is dealt with.
	Effect() Effect
	// Call does the work, or says what has to happen elsewhere. Whatever goes
	// wrong with the input or the work is an error result for the model, never a
	// failure of the run. When ctx ends Call returns soon with any outcome; it
	// is dropped.
	Call(ctx context.Context, call Call) Outcome
}

// Effect is what a call leaves behind.
type Effect uint8

// The effects.
const (
	// EffectUnspecified is treated as EffectLasting.
	EffectUnspecified Effect = iota
	// EffectNone is that of a tool that only looks: after a crash it runs again.
	EffectNone
	// EffectLasting is that of a tool whose call may not run twice unnoticed: its
	// start is recorded first, and after a crash in between the model is told that
	// the outcome is unknown.
	EffectLasting
	// EffectDelegated is that of a tool whose call returns at once with what the
	// orchestrator has to do; the orchestrator does it once.
	EffectDelegated
)

// Call is one call of a tool.
type Call struct {
	// Input is what the model wrote: untrusted, and not yet checked.
	Input json.RawMessage
	// Workspace is the directory that the file tools work in; nil if the run has none.
	Workspace *Workspace
	// Past gives the calls of earlier messages with their results, as the model sees
	// them now, oldest first; nil if nobody has put it together.
	Past iter.Seq[Past]
	// Label names the call among all calls of the session: fit for a file name.
	Label string
	// Permissions are those of the run, for what the call comes by that is decided on as a
	// call of its own; nil allow everything.
	Permissions policy.Layers
	// Background is closed when the call is asked to let the run go on: a tool that can
	// do so gives a [Spawn] of what it has under way. nil: it is not asked.
	Background <-chan struct{}
	// NoBackground says that nothing is to run in the background: what asks for that
	// runs in the foreground.
	NoBackground bool

	parsed *input // for what guards look at
}

// Past is an earlier call that has its result.
type Past struct {
	Tool    string
	Input   json.RawMessage
	Text    string
	IsError bool
}

// Outcome is what came of a call: [Done], [Spawn] or [Wait]. The loop acts on
// the outcome; it knows no tool by name.
type Outcome interface{ isOutcome() }

// Done closes the call with a result.
type Done struct {
	Text    string
	IsError bool
}

// Spawn asks for a child. The call is closed by the orchestrator: at once if
// the child runs in the background, otherwise with the child's result.
type Spawn struct {
	Agent       string
	Description string
	Prompt      string
	Model       string      // empty: the agent's own, then the parent's
	Resume      tree.TaskID // zero: a new child; otherwise the task that gets another run
	Background  bool
	Fork        bool // the child sees the conversation so far

	Context       []string      // what it is told beside the prompt, a part each
	MaxIterations int           // model calls of a run; 0: the agent's
	Timeout       time.Duration // of a run while it is with workers; 0: the agent's
	Join          tree.Join
	JoinTimeout   time.Duration // how long the call waits before the child goes on in the background; 0: until its end

	// Command is the child, if it is no agent: of the above only Description and
	// Background count then, and it is in the background.
	Command *Command
}

// Wait asks for the output of a task below the caller: once it ends, or as it
// is when Timeout has passed. A zero Timeout looks and does not wait. With Stop the
// task is ended first.
type Wait struct {
	Task    tree.TaskID
	Timeout time.Duration
	Stop    bool
}

func (Done) isOutcome()  {}
func (Spawn) isOutcome() {}
func (Wait) isOutcome()  {}
