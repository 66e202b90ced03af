package policy

import (
	"encoding/json"
	"fmt"
)

// Approvals says what becomes of what a sub-agent has to ask about.
type Approvals uint8

// What can become of it.
const (
	ApprovalsUnspecified Approvals = iota // that is left to somebody else
	ApprovalsDeny                         // it is denied
	ApprovalsEscalate                     // it is taken to the approvals of the session
)

var approvalNames = [...]string{"", "deny", "escalate"}

// ParseApprovals reads the name.
func ParseApprovals(s string) (Approvals, error) {
	for a := ApprovalsDeny; a <= ApprovalsEscalate; a++ {
		if approvalNames[a] == s {
			return a, nil
		}
	}
	return ApprovalsUnspecified, fmt.Errorf("expected deny or escalate, got %q", s)
}

// String gives the name; that of ApprovalsUnspecified is empty.
func (a Approvals) String() string { return approvalNames[a] }

// MarshalJSON says whether it is escalated, which is all that releases before knew of.
func (a Approvals) MarshalJSON() ([]byte, error) { return json.Marshal(a == ApprovalsEscalate) }

// UnmarshalJSON reads that.
func (a *Approvals) UnmarshalJSON(text []byte) error {
	var escalate bool
	if err := json.Unmarshal(text, &escalate); err != nil {
		return err
	}
	*a = ApprovalsDeny
	if escalate {
		*a = ApprovalsEscalate
	}
	return nil
}
