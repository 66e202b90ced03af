package tree

import (
	"bytes"
	"slices"

	"github.com/coppice-run/coppice/internal/policy"
)

// othersAsking asks for all other open approvals of the session. All tasks have to be read only if
// more approvals are open than the task's own.
func (n *needs) othersAsking(t *Task) {
	s := n.view.session
	if t == nil || s == nil || s.Asking < 2 {
		return
	}
	n.openCalls(t)
	n.openApprovals(t)
	if s.Asking == t.Asking {
		return
	}
	n.below(TaskID{})
	for _, t := range n.view.all() {
		if t.Asking > 0 {
			n.openCalls(t)
			n.openApprovals(t)
		}
	}
}

// allowGranted allows, for the session, the open approvals that its grants now cover.
func (d *decision) allowGranted(message string) {
	var granted []*Approval
	for _, t := range d.view.all() {
		if t.Asking == 0 || !d.view.open[t.ID] {
			continue
		}
		for _, c := range d.view.calls[t.ID] {
			if c != nil && c.State == CallAsking && d.view.approval(c.Approval).grantedBy(d.session().Grants) {
				granted = append(granted, d.view.approval(c.Approval))
			}
		}
	}
	slices.SortFunc(granted, func(a, b *Approval) int { return bytes.Compare(a.ID[:], b.ID[:]) }) // as they have asked
	for _, a := range granted {
		t, call := d.view.task(a.Task), d.view.call(a.Task, a.Ref)
		a.ForSession, a.Message = true, message
		d.closeApproval(t, a, ApprovalAllowed)
		d.emit(t, decidedEvent(a))
		d.approveCall(t, call)
	}
}

// grantedBy reports whether all rules that ask have been granted. An approval that names the
// maximum number of rules may have more rules that ask.
func (a *Approval) grantedBy(grants []string) bool {
	return len(a.Rules) < maxRules && policy.Verdict{Decision: policy.Ask, Rules: a.Rules}.Granted(grants)
}
