package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/policy"
)

// applyApproval applies an event about the task's approvals.
func (n *node) applyApproval(e *pb.Event) {
	switch k := e.GetKind().(type) {
	case *pb.Event_ApprovalRequested:
		n.questions = append(n.questions, k.ApprovalRequested)
	case *pb.Event_ApprovalDecided:
		n.removeQuestion(k.ApprovalDecided.GetApprovalId())
	case *pb.Event_ApprovalExpired:
		n.removeQuestion(k.ApprovalExpired.GetApprovalId())
	}
}

// questionSettledBy returns the open question that an event settles; nil if there is none. Call it
// before the event is applied.
func (f *forest) questionSettledBy(e *pb.Event) *pb.ApprovalRequested {
	id := orDefault(e.GetApprovalDecided().GetApprovalId(), e.GetApprovalExpired().GetApprovalId())
	n := f.nodes[e.GetTaskId()]
	if n == nil || id == "" {
		return nil
	}
	for _, q := range n.questions {
		if q.GetApprovalId() == id {
			return q
		}
	}
	return nil
}

func (n *node) removeQuestion(approval string) {
	for i, q := range n.questions {
		if q.GetApprovalId() == approval {
			n.questions = append(n.questions[:i:i], n.questions[i+1:]...)
			return
		}
	}
}

// dropQuestions forgets the open questions of all tasks: after an interrupt nobody is asked, and a
// row would show only a part of one.
func (f *forest) dropQuestions() {
	for _, n := range f.order {
		n.questions, n.openApprovals = nil, 0
	}
}

// openQuestions counts the open questions of all tasks.
func (f *forest) openQuestions() int64 {
	var all int64
	for _, n := range f.order {
		all += int64(len(n.questions))
	}
	return all
}

// askText says what a task asks, and how to answer if the approval has an id.
func askText(q approvalCall, task, approval string, by decisionHelp) string {
	text := "may " + quotedCall(q) + " run?"
	if by.decideText == nil {
		return text + by.fullArgument(q, task, " ")
	}
	if more := byMode(q); more != "" {
		text += " " + more + ";"
	}
	return text + " " + safeLine(by.decideText(idEnd(approval), q)) + by.fullArgument(q, task, "; ")
}

// byRule names the rules that ask; empty if only the mode asks.
func byRule(q ruledCall) string {
	return askedBy(slices.DeleteFunc(askers(q), func(a policy.Asker) bool { return a.Rule == "" }))
}

// byMode says that the mode asks about more than the shown argument; empty if it does not.
func byMode(q approvalCall) string {
	return askedBy(slices.DeleteFunc(askers(q), func(a policy.Asker) bool { return len(a.For) == 0 }))
}

// settledText says how a question was settled. It names the call if that is known, because a task
// may have several questions.
func settledText(q *pb.ApprovalRequested, became, more string) string {
	if q == nil {
		return became
	}
	return ansi.Truncate(quotedCall(q), inputCells, more) + ": " + became
}

// decidedText says how a question was decided.
func decidedText(d *pb.ApprovalDecided) string {
	switch {
	case d.GetState() == pb.ApprovalState_APPROVAL_STATE_WITHDRAWN:
		return "withdrawn because its run ended"
	case d.GetState() == pb.ApprovalState_APPROVAL_STATE_DENIED:
		return strings.TrimRight("denied: "+safeLine(d.GetMessage()), ": ")
	case d.GetScope() == pb.ApprovalScope_APPROVAL_SCOPE_SESSION:
		return "allowed for the session"
	}
	return "allowed"
}

// reportBlocked prints the approvals that a blocked session waits for, and how to decide on them.
func (a *app) reportBlocked(ctx context.Context, f showOptions) error {
	asks, err := f.client.openQuestions(ctx, f.session, f.decisionHelp)
	if err != nil {
		return err
	}
	return a.blockedExit(asks)
}

// blockedExit prints questions and returns the exit code of a blocked session.
func (a *app) blockedExit(asks []string) error {
	for _, ask := range asks {
		a.warn("blocked: " + ask)
	}
	return exitCode(exitUnfinished)
}

// openQuestions returns the open questions of a session, with how to decide on them.
func (c *client) openQuestions(ctx context.Context, session string, by decisionHelp) (asks []string, err error) {
	err = c.eachApproval(ctx, session, false, func(p *pb.Approval) error {
		asks = append(asks, askText(p, p.GetTaskId(), p.GetId(), by.forSession(session)))
		return nil
	})
	return asks, err
}
