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

// questions are what a person is asked below the tree that is drawn.
type questions struct {
	decide         func(*pb.DecideApprovalRequest) error // nil: nobody is asked
	shown          string                                // the approval that is on the screen; empty: none
	argumentCut    bool                                  // and not all of its call
	shownAt        time.Time                             // when it came there
	sent           map[string]bool                       // what was decided on, and is not known to be yet
	failed         string                                // why the last answer was not taken, until the next one
	failedApproval string                                // the approval that it was for

	help decisionHelp // what shows more than there is room for; not how to decide
}

// settles is how long a question has been on the screen before a key answers it: what was typed
// before is an answer to another one.
const minShown = 400 * time.Millisecond

// keys says how a question is answered, and keysUnseen how one is that is about a call of which
// not all is shown: with no key that is typed as if it were.
const (
	keys       = "[y] once  [s] for the session  [n] deny"
	keysUnseen = "[u] once, though not all of it is shown  [n] deny"
)

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

// question is an open one, and the task that asks it.
type question struct {
	by *node
	*pb.ApprovalRequested
}

// open gives the questions that are open and not left out, the oldest first.
func (f *forest) openExcept(but map[string]bool) (open []question) {
	for _, n := range f.order {
		for _, q := range n.questions {
			if !but[q.GetApprovalId()] {
				open = append(open, question{n, q})
			}
		}
	}
	slices.SortFunc(open, func(a, b question) int { return strings.Compare(a.GetApprovalId(), b.GetApprovalId()) }) // they begin with the time
	return open
}

// lines are those of the oldest question that is no longer than there is room for: it is asked
// whole. If there is none it is said how those can be answered that are open.
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
	hint := "a call asks that does not fit here: " + orDefault(safeLine(q.help.listCommand), "make the terminal larger")
	lines := strings.Split(ansi.Hardwrap(hint, width, true), "\n")
	return lines[:min(len(lines), room)]
}

// lines are the question as it is asked, one of so many.
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
	// Nothing of a call is lost where a line ends, not even blanks.
	how := keys
	if q.GetArgumentCut() > 0 {
		how = keysUnseen
	}
	return append(strings.Split(ansi.Hardwrap(text, width, true), "\n"), strings.Split(ansi.Wrap(how, width, ""), "\n")...)
}

// answer decides on the question that is on the screen, if a key says how.
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

// answered takes in what has become of an answer. A question is asked again whose answer was not
// taken, if it is still open; of another one the tree tells what has become.
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
		reason = "nobody was there" // what that looked like is of no use here
	}
	q.failed, q.failedApproval = "not answered: "+safeLine(reason), m.approval
}

// over forgets a question that is open no more.
func (q *questions) settle(s *pb.WatchSessionResponse) {
	for _, id := range []string{s.GetEvent().GetApprovalDecided().GetApprovalId(), s.GetEvent().GetApprovalExpired().GetApprovalId()} {
		delete(q.sent, id)
		if id != "" && id == q.failedApproval {
			q.failed, q.failedApproval = "", ""
		}
	}
}
