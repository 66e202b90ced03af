package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/policy"
)

// Kind is what a task runs.
type Kind uint8

// The kinds of tasks.
const (
	KindUnspecified Kind = iota
	KindAgent            // an LLM loop
	KindShell            // a command
)

// Branch is how a task's conversation relates to another one.
type Branch uint8

// The branches.
const (
	BranchUnspecified Branch = iota
	BranchMain               // the root's
	BranchSubagent           // a spawned child's
	BranchHuman              // a person continues from a message of another task
)

// Mode is where an agent may be used.
type Mode uint8

// The modes of agents.
const (
	ModeUnspecified Mode = iota
	ModePrimary          // as a root
	ModeSubagent         // as a spawned child
	ModeBoth             // as either
)

func (m Mode) String() string {
	switch m {
	case ModePrimary:
		return "primary"
	case ModeSubagent:
		return "subagent"
	case ModeBoth:
		return "both"
	}
	return "unspecified"
}

// MayBeRoot reports whether a session can start with such an agent.
func (m Mode) MayBeRoot() bool { return m == ModePrimary || m == ModeBoth }

// MayBeSpawned reports whether such an agent can be a child.
func (m Mode) MayBeSpawned() bool { return m == ModeSubagent || m == ModeBoth }

// Agent is what the core needs of an agent's definition: the version that a task pins, and its
// limits.
type Agent struct {
	Name          string
	Version       string
	Mode          Mode
	Model         string
	MaxIterations int // 0: the default for the depth

	Timeout         time.Duration // of a run while it is RUNNING; 0: none
	FailOnInterrupt bool          // a run whose worker is lost fails
	ForkContext     bool          // a spawned child sees its parent's conversation
	OnComplete      string        // URL to call when a run has ended; empty: none
	Worktree        bool          // a sub-agent works in its own git worktree

	Permissions policy.Pinned // the permissions of its definition
}

// ModelPin is the model that a task runs with, resolved when the task was made. Zero: no model was
// named, and the worker chooses.
type ModelPin struct {
	Provider string
	Name     string // the provider's name for it
}

// InheritModel stands for the parent's model.
const InheritModel = "inherit"

// IsZero reports whether nothing is pinned.
func (p ModelPin) IsZero() bool { return p == ModelPin{} }

// State is the state of a task's current run.
type State uint8

// The states of a run.
const (
	StateUnspecified State = iota
	StateNew               // a root before its first turn
	StatePending           // accepted, waits for a worker
	StateRunning           // with a worker
	StateWaiting           // parked: holds no worker
	StateCompleted
	StateFailed
	StateCancelled
)

// Terminal reports whether a run in this state has ended.
func (s State) Terminal() bool { return s >= StateCompleted }

// Active reports whether there is a run and it has not ended.
func (s State) Active() bool { return s >= StatePending && s <= StateWaiting }

// Reason says why a run failed or was cancelled.
type Reason uint8

// The reasons. Their numbers are stored: never change or reuse one.
const (
	ReasonUnspecified Reason = iota
	ReasonToolError
	ReasonApprovalDenied
	ReasonRuntimeError
	ReasonProviderError
	ReasonInterrupted
	ReasonMaxIterations
	ReasonTimeout
	ReasonDeadline
	ReasonBudgetExhausted
	ReasonRejected
	ReasonPoisoned
	ReasonCancelledByUser
	ReasonCancelledByParent
	ReasonAbandoned
	ReasonUnknown
)
