// Package tool defines the contract between the agent loop and the tools that a model can call,
// and contains the tools: one file for each, with the text for the model in a Markdown file next
// to it.
package tool

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tree"
)

// Tool is something that a model can call. All attempts of a worker share a tool, so Call must be
// safe for concurrent use. Everything that differs between runs is in the [Call].
type Tool interface {
	// Spec returns what the model is told.
	Spec() model.ToolSpec
	// Effect returns what a call leaves behind, which decides what happens after a crash.
	Effect() Effect
	// Call does the work, or returns what the orchestrator has to do. Every failure is an error
	// result for the model, never a failure of the run. When ctx ends, Call returns soon, and its
	// outcome is dropped.
	Call(ctx context.Context, call Call) Outcome
}

// Effect is what a call leaves behind.
type Effect uint8

const (
	// EffectUnspecified is treated as EffectLasting.
	EffectUnspecified Effect = iota
	// EffectNone means that the tool only reads: after a crash it runs again.
	EffectNone
	// EffectLasting means that a call must not run twice unnoticed. Its start is recorded first.
	// After a crash during the call, the model is told that the outcome is unknown.
	EffectLasting
	// EffectDelegated means that a call returns at once with what the orchestrator has to do. The
	// orchestrator does it once.
	EffectDelegated
)

// Call is one call of a tool.
type Call struct {
	// Input is what the model wrote. It is untrusted and not yet checked.
	Input json.RawMessage
	// Workspace is the directory of the file tools; nil if the run has none.
	Workspace *Workspace
	// Secrets are removed from a text before it is cut or kept; nil: none are known.
	Secrets *redact.Redactor
	// Past yields the calls of earlier messages with their results, as the model sees them now,
	// oldest first; nil if not available.
	Past iter.Seq[Past]
	// Label is a name of the call that is unique in its session and can be used in a file name.
	Label string
	// Permissions are those of the run. A tool uses them to decide on further actions of the call,
	// each as a call of its own; nil allows everything.
	Permissions policy.Layers
	// Background is closed to ask the call to let the run continue without it. A tool that supports
	// this returns a [Spawn] of what it is running. nil: never asked.
	Background <-chan struct{}
	// NoBackground means that nothing may run in the background: requests for it run in the
	// foreground.
	NoBackground bool

	parsed *input // for guards
}

// Past is an earlier call with its result.
type Past struct {
	Tool    string
	Input   json.RawMessage
	Text    string
	IsError bool
}

// Outcome is the outcome of a call: [Done], [Spawn] or [Wait]. The loop acts on the outcome; it
// knows no tool by name.
type Outcome interface{ isOutcome() }

// Done closes the call with a result.
type Done struct {
	Text    string
	IsError bool
}

// Spawn asks for a child. The orchestrator closes the call: at once if the child runs in the
// background, otherwise with the child's result.
type Spawn struct {
	Agent       string
	Description string
	Prompt      string
	Model       string      // empty: the agent's own, or else the parent's
	Resume      tree.TaskID // the task that gets another run; zero: a new child
	Background  bool
	Fork        bool // the child sees the conversation so far

	Context       []string      // given to the child with the prompt, one part each
	MaxIterations int           // model calls of a run; 0: the agent's default
	Timeout       time.Duration // of a run while it is with workers; 0: the agent's default
	Join          tree.Join
	JoinTimeout   time.Duration // how long the call waits before the child goes to the background; 0: until the child ends

	// Command makes the child a command instead of an agent. Then of the fields above only
	// Description and Background count, and it runs in the background.
	Command *Command
}

// Wait asks for the output of a task below the caller, when the task ends or when Timeout has
// passed. A zero Timeout does not wait. With Stop the task is ended first.
type Wait struct {
	Task    tree.TaskID
	Timeout time.Duration
	Stop    bool
}

func (Done) isOutcome()  {}
func (Spawn) isOutcome() {}
func (Wait) isOutcome()  {}
