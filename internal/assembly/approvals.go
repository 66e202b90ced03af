package assembly

import (
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// ApprovalFlags are the flags for approvals in the sessions that an orchestrator opens.
type ApprovalFlags struct {
	Approvals       string        `env:"COPPICE_APPROVALS" enum:"deny,escalate" default:"escalate" placeholder:"WHERE" help:"What becomes of what a sub-agent asks, unless its definition or its session says: deny, or escalate to the session's approvals."`
	ApprovalTimeout time.Duration `env:"COPPICE_APPROVAL_TIMEOUT" default:"24h" help:"How long a call waits for somebody to allow it before it is denied; 0 is for ever."`
}

// Apply sets the flags in the limits of sessions.
func (f ApprovalFlags) Apply(limits *tree.Limits) {
	limits.Escalate, limits.Approval = f.Approvals == "escalate", f.ApprovalTimeout
}
