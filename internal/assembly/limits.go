package assembly

import (
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// LimitFlags are the flags for the limits of the sessions that an orchestrator opens. Their
// defaults are those of [tree.DefaultLimits].
type LimitFlags struct {
	MaxDepth   int `env:"COPPICE_MAX_DEPTH" default:"4" help:"Maximum depth of a task below the root."`
	MaxWidth   int `env:"COPPICE_MAX_WIDTH" default:"1000" help:"Maximum number of children that one task may have in total, including those that have ended."`
	MaxTotal   int `env:"COPPICE_MAX_TOTAL" default:"100000" help:"Maximum number of tasks of one session in total, including those that have ended."`
	MaxRunning int `env:"COPPICE_MAX_RUNNING" default:"64" help:"Maximum number of running tasks of one session; others are queued."`
	MaxQueue   int `env:"COPPICE_MAX_QUEUE" default:"20000" help:"Maximum number of tasks of one session that wait for a worker; 0 means no limit."`
	MaxOutput  int `env:"COPPICE_MAX_OUTPUT_BYTES" default:"30720" help:"How much of a task's output is shown, in bytes; of longer output, the end is shown. 0 means the default."`
	MaxPart    int `env:"COPPICE_MAX_PART_BYTES" default:"1048576" help:"Maximum size of one message part, in bytes; at most 15728640."`

	RunLimitFlags

	NoBackground bool `env:"COPPICE_NO_BACKGROUND" help:"In sessions opened from now on, run in the foreground what agents start in the background."`

	ApprovalFlags
}

// Apply sets the flags in the limits of sessions.
func (f LimitFlags) Apply(limits *tree.Limits) {
	limits.Depth, limits.Width, limits.Total = f.MaxDepth, f.MaxWidth, f.MaxTotal
	limits.Running, limits.Queue = f.MaxRunning, f.MaxQueue
	limits.OutputBytes, limits.PartBytes = f.MaxOutput, f.MaxPart
	limits.NoBackground = f.NoBackground
	f.RunLimitFlags.Apply(limits)
	f.ApprovalFlags.Apply(limits)
}

// RunLimitFlags are the flags for the limits of runs.
type RunLimitFlags struct {
	MaxIterations    int `env:"COPPICE_MAX_ITERATIONS" default:"100" placeholder:"N" help:"Default limit of model calls for a run of a root; agents can override it."`
	MaxIterationsSub int `env:"COPPICE_MAX_ITERATIONS_SUB" default:"50" placeholder:"N" help:"Default limit of model calls for a run of a sub-agent; agents and calls can override it."`

	RunTimeout time.Duration `env:"COPPICE_RUN_TIMEOUT" default:"0" placeholder:"DURATION" help:"Default limit for the time that a run is with workers in total, for example 30m; agents and calls can override it. 0 means no limit."`
}

// Apply sets the flags in the limits of sessions.
func (f RunLimitFlags) Apply(limits *tree.Limits) {
	limits.RootIterations, limits.SubIterations = f.MaxIterations, f.MaxIterationsSub
	limits.RunTimeout = f.RunTimeout
}

// ApprovalFlags are the flags for approvals.
type ApprovalFlags struct {
	Approvals       string        `env:"COPPICE_APPROVALS" enum:"deny,escalate" default:"escalate" placeholder:"WHERE" help:"Handling of sub-agents' calls that need approval: deny, or escalate to the session's approvals. Sessions and definitions can override it."`
	ApprovalTimeout time.Duration `env:"COPPICE_APPROVAL_TIMEOUT" default:"24h" help:"How long a call waits for approval before it is denied; 0 means no limit."`
}

// Apply sets the flags in the limits of sessions.
func (f ApprovalFlags) Apply(limits *tree.Limits) {
	limits.Escalate, limits.Approval = f.Approvals == "escalate", f.ApprovalTimeout
}
