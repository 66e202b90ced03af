package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// questions are the approvals that a person is asked for below the drawn tree.
type questions struct {
	decide         func(*pb.DecideApprovalRequest) error // nil: nobody is asked
	shown          string                                // the approval on the screen; empty: none
	argumentCut    bool                                  // its argument is not shown completely
	shownAt        time.Time                             // when it appeared
	sent           map[string]bool                       // decided, but the event has not arrived yet
	failed         string                                // why the last answer was not accepted, until the next answer
	failedApproval string                                // the approval of that answer

	help decisionHelp // shows more than fits on the screen; says nothing on how to decide
}

// minShown is how long a question must have been on the screen before a key answers it. Earlier
// keys were typed for another question.
const minShown = 400 * time.Millisecond

// keys are the keys that answer a question. keysUnseen are those for a call that is not shown
// completely: other keys, so that nobody allows it by habit.
const (
	keys       = "[y] once  [s] for the session  [n] deny"
	keysUnseen = "[u] once, though not all of it is shown  [n] deny"
)

// answeredMsg is the result of an answer.
type answeredMsg struct {
	approval string
	err      error
}

// decider returns the function that decides on approvals.
func (c *client) decider(ctx context.Context) func(*pb.DecideApprovalRequest) error {
	return func(req *pb.DecideApprovalRequest) error {
		_, err := c.approvals.DecideApproval(ctx, req)
		return during("deciding the approval", err)
	}
}

// question is an open approval with its task.
type question struct {
	by *node
	*pb.ApprovalRequested
}

// openExcept returns the open questions that are not in but, oldest first.
func (f *forest) openExcept(but map[string]bool) (open []question) {
	for _, n := range f.order {
		for _, q := range n.questions {
			if !but[q.GetApprovalId()] {
				open = append(open, question{n, q})
			}
		}
	}
	slices.SortFunc(open, func(a, b question) int { return strings.Compare(a.GetApprovalId(), b.GetApprovalId()) }) // ids begin with the time
	return open
}

// lines returns the lines of the oldest question that fits completely. If none fits, it returns
// how the open ones can be answered.
func (q *questions) lines(f *forest, now time.Time, width, room int) []string {
	open := f.openExcept(q.sent)
	if q.decide == nil || len(open) == 0 || room < 1 {
		q.shown = ""
		return nil
	}
	for _, asked := range open {
		if lines := asked.lines(len(open), width, q.help); len(lines) <= room {
			if q.shown != asked.GetApprovalId() {
				q.shown, q.shownAt, q.argumentCut = asked.GetApprovalId(), now, asked.GetArgumentCut() > 0
			}
			return lines
		}
	}
	q.shown = ""
	hint := "an open approval does not fit here: " + orDefault(safeLine(q.help.listCommand), "make the terminal larger")
	lines := strings.Split(ansi.Hardwrap(hint, width, true), "\n")
	return lines[:min(len(lines), room)]
}

// lines returns the lines of the question. of is the number of open questions.
func (q question) lines(of, width int, elsewhere decisionHelp) []string {
	text := safeLine(orDefault(q.by.agent, "?"))
	if d := safeLine(q.by.description); d != "" {
		text += " " + quoted(q.by.description)
	}
	text += ": " + askText(q, q.by.id, "", elsewhere) +
		"\n" + askedBy(askers(q))
	if of > 1 {
		text += fmt.Sprintf("  (1 of %d)", of)
	}
	// Hardwrap keeps every character of the call, including blanks at line ends.
	how := keys
	if q.GetArgumentCut() > 0 {
		how = keysUnseen
	}
	return append(strings.Split(ansi.Hardwrap(text, width, true), "\n"), strings.Split(ansi.Wrap(how, width, ""), "\n")...)
}

// answer decides on the shown question, if the key answers it.
func (q *questions) answer(key string, now time.Time) tea.Cmd {
	req := &pb.DecideApprovalRequest{ApprovalId: q.shown, Decision: pb.Decision_DECISION_ALLOW}
	switch {
	case key == "n":
		req.Decision = pb.Decision_DECISION_DENY
	case q.argumentCut && key == "u", !q.argumentCut && key == "y":
	case !q.argumentCut && key == "s":
		req.Scope = pb.ApprovalScope_APPROVAL_SCOPE_SESSION
	default:
		return nil
	}
	if q.shown == "" || now.Sub(q.shownAt) < minShown {
		return nil
	}
	if q.sent == nil {
		q.sent = map[string]bool{}
	}
	q.sent[q.shown], q.shown = true, ""
	q.failed, q.failedApproval = "", ""
	decide := q.decide
	return func() tea.Msg { return answeredMsg{req.GetApprovalId(), decide(req)} }
}

// answered processes the result of an answer. A question whose answer was not accepted is asked
// again if it is still open.
func (q *questions) answered(m answeredMsg, f *forest) {
	if m.err == nil {
		return
	}
	delete(q.sent, m.approval)
	if !slices.ContainsFunc(f.openExcept(nil), func(o question) bool { return o.GetApprovalId() == m.approval }) {
		return
	}
	reason := m.err.Error()
	if s := status.Convert(m.err); s.Code() == codes.Unavailable && len(s.Details()) == 0 {
		reason = "no connection" // the details of the connection error do not help here
	}
	q.failed, q.failedApproval = "not answered: "+safeLine(reason), m.approval
}

// settle forgets a question that is no longer open.
func (q *questions) settle(s *pb.WatchSessionResponse) {
	for _, id := range []string{s.GetEvent().GetApprovalDecided().GetApprovalId(), s.GetEvent().GetApprovalExpired().GetApprovalId()} {
		delete(q.sent, id)
		if id != "" && id == q.failedApproval {
			q.failed, q.failedApproval = "", ""
		}
	}
}
