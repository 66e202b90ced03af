package assembly

import (
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// ApprovalFlags are the flags for approvals in the sessions that an orchestrator opens.
type ApprovalFlags struct {
	Approvals       string        `env:"COPPICE_APPROVALS" enum:"deny,escalate" default:"escalate" placeholder:"WHERE" help:"Handling of sub-agents' calls that need approval: deny, or escalate to the session's approvals. Sessions and definitions can override it."`
	ApprovalTimeout time.Duration `env:"COPPICE_APPROVAL_TIMEOUT" default:"24h" help:"How long a call waits for approval before it is denied; 0 means no limit."`
}

// Apply sets the flags in the limits of sessions.
func (f ApprovalFlags) Apply(limits *tree.Limits) {
	limits.Escalate, limits.Approval = f.Approvals == "escalate", f.ApprovalTimeout
}
