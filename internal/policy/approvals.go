package policy

import (
	"encoding/json"
	"fmt"
)

// Approvals decides what happens to the questions of a sub-agent.
type Approvals uint8

// What happens to the questions of a sub-agent.
const (
	ApprovalsUnspecified Approvals = iota // decided elsewhere
	ApprovalsDeny                         // questions are denied
	ApprovalsEscalate                     // questions become approvals of the session
)

var approvalNames = [...]string{"", "deny", "escalate"}

// ParseApprovals parses the name.
func ParseApprovals(s string) (Approvals, error) {
	for a := ApprovalsDeny; a <= ApprovalsEscalate; a++ {
		if approvalNames[a] == s {
			return a, nil
		}
	}
	return ApprovalsUnspecified, fmt.Errorf("expected deny or escalate, got %q", s)
}

// String returns the name; that of ApprovalsUnspecified is empty.
func (a Approvals) String() string { return approvalNames[a] }

// MarshalJSON encodes whether questions are escalated, which is all that earlier releases know.
func (a Approvals) MarshalJSON() ([]byte, error) { return json.Marshal(a == ApprovalsEscalate) }

// UnmarshalJSON is the inverse of MarshalJSON.
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
