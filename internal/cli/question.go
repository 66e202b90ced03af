package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// questions are what a person is asked below the tree that is drawn.
type questions struct {
	decide func(*pb.DecideApprovalRequest) error // nil: nobody is asked
	open   string                                // the approval that is on the screen; empty: none
	since  time.Time                             // when it came there
	sent   map[string]bool                       // what was decided on, and is not known to be yet
}

// settles is how long a question has been on the screen before a key answers it: what was typed
// before is an answer to another one.
const settles = 400 * time.Millisecond

// keys says how a question is answered.
const keys = "[y] once  [s] for the session  [n] deny"

// answeredMsg says that an answer was taken, or why it was not.
type answeredMsg struct {
	approval string
	err      error
}

// answering gives what decides on approvals.
func (c *client) answering(ctx context.Context) func(*pb.DecideApprovalRequest) error {
	return func(req *pb.DecideApprovalRequest) error {
		_, err := c.approvals.DecideApproval(ctx, req)
		return during("deciding the approval", err)
	}
}

// oldest gives the question that was asked first, of those that are not left out, and who asks.
func (f *forest) oldest(but map[string]bool) (by *node, first *pb.ApprovalRequested) {
	for _, n := range f.order {
		for _, q := range n.asks {
			if id := q.GetApprovalId(); !but[id] && (first == nil || id < first.GetApprovalId()) { // they begin with the time
				by, first = n, q
			}
		}
	}
	return by, first
}

// lines are those of the question that is asked, whole, if they are no more than there is room
// for; of one for which there is none it is said where it is shown.
func (q *questions) lines(f *forest, now time.Time, width, room int) []string {
	by, asked := f.oldest(q.sent)
	if q.decide == nil || asked == nil || room < 1 {
		q.open = ""
		return nil
	}
	text := safeLine(orElse(by.agent, "?"))
	if d := safeLine(by.description); d != "" {
		text += " " + quoted(by.description)
	}
	text += ": " + askText(asked.GetTool(), asked.GetArgument(), "", deciding{}) +
		"\n" + strings.TrimSpace(askedBy(asked.GetTool(), asked.GetRules()))
	if n := f.asking() - int64(len(q.sent)); n > 1 {
		text += fmt.Sprintf("  (1 of %d)", n)
	}
	// Nothing of a call is lost where a line ends, not even blanks.
	lines := append(strings.Split(ansi.Hardwrap(text, width, true), "\n"), strings.Split(ansi.Wrap(keys, width, ""), "\n")...)
	if len(lines) > room {
		q.open = ""
		return []string{ansi.Truncate("a call asks that does not fit here: coppice approvals", width, "")}
	}
	if q.open != asked.GetApprovalId() {
		q.open, q.since = asked.GetApprovalId(), now
	}
	return lines
}

// answer decides on the question that is on the screen, if a key says how.
func (q *questions) answer(key string, now time.Time) tea.Cmd {
	req := &pb.DecideApprovalRequest{ApprovalId: q.open, Decision: pb.Decision_DECISION_ALLOW}
	switch key {
	case "y":
	case "s":
		req.Scope = pb.ApprovalScope_APPROVAL_SCOPE_SESSION
	case "n":
		req.Decision = pb.Decision_DECISION_DENY
	default:
		return nil
	}
	if q.open == "" || now.Sub(q.since) < settles {
		return nil
	}
	if q.sent == nil {
		q.sent = map[string]bool{}
	}
	q.sent[q.open], q.open = true, ""
	decide := q.decide
	return func() tea.Msg { return answeredMsg{req.GetApprovalId(), decide(req)} }
}

// answered takes in what has become of an answer. A question is asked again whose answer was not
// taken, if it is still open.
func (q *questions) answered(m answeredMsg) (failed string) {
	if m.err == nil {
		return ""
	}
	delete(q.sent, m.approval)
	return safeLine(m.err.Error())
}

// over forgets a question that is open no more.
func (q *questions) over(s *pb.WatchSessionResponse) {
	delete(q.sent, s.GetEvent().GetApprovalDecided().GetApprovalId())
	delete(q.sent, s.GetEvent().GetApprovalExpired().GetApprovalId())
}
