package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// canvas is the space in which a forest is drawn.
type canvas struct {
	theme  theme
	width  int // in cells; 0: no bound
	height int // in lines; 0: no bound
	now    time.Time
	frame  int  // animates the marks of running tasks; negative: no animation
	ids    bool // whether to show the ends of ids

	decisionHelp decisionHelp

	deniedWidth int // width of the widest count of denied calls
}

// The minimum canvas width for each figure, and the width of the figure with its gap.
const (
	minTimeWidth, timeWidth     = 36, 8
	minTokensWidth, tokensWidth = 56, 10
	minToolsWidth, toolsWidth   = 72, 10
	minIDsWidth                 = 60
	minNoteWidth                = 12
)

// shortID is the length of a shortened id.
const shortID = 8

// draw returns the lines of a forest that fit on the canvas. It first leaves out what matters
// least: figures on a narrow canvas, and ended tasks on a low one.
func (f *forest) draw(c canvas) []string {
	folded := f.fold(c.height)
	labels := make([]string, len(folded))
	widest := 0
	for i, r := range folded {
		labels[i] = c.label(r)
		widest = max(widest, ansi.StringWidth(labels[i]))
		if r.node != nil {
			c.deniedWidth = max(c.deniedWidth, len(c.denied(r.node)))
		}
	}
	left := widest
	if c.width > 0 {
		left = min(left, c.labelRoom())
	}
	lines := make([]string, len(folded))
	for i, r := range folded {
		lines[i] = c.line(r, labels[i], left)
	}
	return lines
}

// labelRoom is the maximum width of labels. A wide canvas reserves some room for the activity of
// tasks.
func (c canvas) labelRoom() int {
	room := c.width - ansi.StringWidth(c.figures(&node{}))
	if c.width >= minToolsWidth {
		return min(room, c.width*9/20)
	}
	return room
}

// label formats a task: guides, mark, agent, description.
func (c canvas) label(r row) string {
	guides := c.theme.dim.Render(c.theme.guides(r.lastAtLevel, c.width/3))
	if r.node == nil {
		return guides + c.theme.dim.Render(c.theme.ellipsis+" "+r.hidden.more())
	}
	n := r.node
	name, gap := safeLine(orDefault(n.agent, "?")), "  "
	if n.shell {
		name, gap = shellName, " "
	}
	s := guides + c.theme.mark(n.state, c.frame) + " " + c.theme.bold.Render(name)
	if d := safeLine(n.description); d != "" {
		s += gap + d
	}
	switch {
	case n.branch && n.current:
		s += c.theme.dim.Render(" (current branch)")
	case n.branch:
		s += c.theme.dim.Render(" (branch)")
	}
	if n.background {
		s += c.theme.dim.Render(" (background)")
	}
	if r.hidden.total() > 0 {
		s += c.theme.dim.Render(" (+ " + r.hidden.String() + ")")
	}
	return s
}

// line joins a label, the figures and the activity.
func (c canvas) line(r row, label string, left int) string {
	if r.node == nil {
		return c.cut(label, c.width)
	}
	label = ansi.Truncate(label, left, c.theme.ellipsis)
	pad := strings.Repeat(" ", max(0, left-ansi.StringWidth(label)))
	s := label + pad + c.theme.dim.Render(c.figures(r.node))
	room := max(0, c.width-ansi.StringWidth(s)-2)
	if c.width > 0 && room < minNoteWidth {
		return strings.TrimRight(s, " ")
	}
	return strings.TrimRight(s+"  "+c.note(r.node, room), " ")
}

// deniedText names the last denied call of a task; empty if there is none.
func (n *node) deniedText() string {
	switch n.denied {
	case 0:
		return ""
	case 1:
		return "denied: " + n.lastDenied
	}
	return fmt.Sprintf("denied: %s and %d more", n.lastDenied, n.denied-1)
}

// cut shortens a text to a number of cells, if the canvas is bounded.
func (c canvas) cut(s string, most int) string {
	if c.width == 0 {
		return s
	}
	return ansi.Truncate(s, most, c.theme.ellipsis)
}

// figures formats the time, the tool calls and the tokens of a task, as many as fit, with the same
// width in all rows.
func (c canvas) figures(n *node) string {
	var s string
	if c.width == 0 || c.width >= minTimeWidth {
		elapsed := ""
		if !n.start.IsZero() {
			elapsed = durationText(n.elapsed(c.now))
		}
		s += fmt.Sprintf("%*s", timeWidth, elapsed)
	}
	if c.width == 0 || c.width >= minToolsWidth {
		s += fmt.Sprintf("%*s", toolsWidth, toolsText(n.tools))
	}
	s += fmt.Sprintf("%-*s", c.deniedWidth, c.denied(n))
	if c.width == 0 || c.width >= minTokensWidth {
		s += fmt.Sprintf("%*s", tokensWidth, tokensText(n.spent.tokens))
	}
	if c.ids && (c.width == 0 || c.width >= minIDsWidth) {
		s += "  " + fmt.Sprintf("%*s", shortID, idEnd(n.id))
	}
	return s
}

// denied formats how many calls of a task were denied, after the tool calls or, where these are
// not shown, alone.
func (c canvas) denied(n *node) string {
	switch {
	case n.denied == 0 || c.width > 0 && c.width < minTimeWidth:
		return ""
	case c.width > 0 && c.width < minToolsWidth:
		return fmt.Sprintf("  %d denied", n.denied)
	}
	return fmt.Sprintf(", %d denied", n.denied)
}

// toolsText formats a number of tool calls so that it fits into its column; nothing for 0.
func toolsText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n >= 1000:
		return fmt.Sprintf("%dk tools", n/1000)
	}
	return plural(n, "tool")
}

// tokensText formats a number of tokens so that it fits into its column; nothing for 0.
func tokensText(n int64) string {
	const m = 1_000_000
	switch {
	case n == 0:
		return ""
	case n >= 100*m:
		return fmt.Sprintf("%dM tok", n/m)
	}
	return countText(n) + " tok"
}

// idEnd returns the end of an id, because ids of one session begin alike.
func idEnd(id string) string {
	id = safeLine(id)
	return id[max(0, len(id)-shortID):]
}

// queuedNotice is from when on the queue time of a run is shown.
const queuedNotice = 3 * time.Second

// silentNotice is from when on it is shown that nothing was heard of a run.
const silentNotice = time.Minute

// silentText formats how long nothing was heard of a run, and its last activity.
func silentText(silent time.Duration, activity string) string {
	text := "silent " + strings.TrimSuffix(durationText(silent.Truncate(time.Minute)), "00s")
	if activity = safeLine(activity); activity != "" {
		text += ": " + activity
	}
	return text
}

// note describes what a task does, or why it ended, in at most room cells.
func (c canvas) note(n *node, room int) string {
	text := ""
	switch n.state {
	case pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_CANCELLED:
		return c.theme.bad.Render(c.cut(reasonText(n.reason, n.detail), room))
	case pb.TaskState_TASK_STATE_COMPLETED:
		text = n.deniedText()
	case pb.TaskState_TASK_STATE_WAITING:
		text = c.waitText(n)
	case pb.TaskState_TASK_STATE_NEW:
		text = "new"
	case pb.TaskState_TASK_STATE_PENDING:
		text = "queued"
		if waits := c.now.Sub(n.queued); waits >= queuedNotice && !n.queued.IsZero() {
			text = "queued for " + durationText(waits)
		} else if n.attempts > 0 {
			text = "ready to continue"
		}
	case pb.TaskState_TASK_STATE_RUNNING:
		if silent := c.now.Sub(n.lastReported); silent >= silentNotice && !n.lastReported.IsZero() {
			text = silentText(silent, n.activity)
		} else if text = n.preview.line(); text == "" {
			text = safeLine(n.activity)
		} else if over := ansi.StringWidth(text) - room; over > 0 && c.width > 0 {
			// The end of a text in progress is the most informative part.
			text = ansi.TruncateLeft(text, over+ansi.StringWidth(c.theme.ellipsis), c.theme.ellipsis)
		}
	}
	return c.theme.dim.Render(c.cut(text, room))
}

func (c canvas) waitText(n *node) string {
	if len(n.questions) > 0 {
		q := n.questions[0]
		return askText(q, n.id, q.GetApprovalId(), c.decisionHelp)
	}
	if n.openApprovals > 0 && c.decisionHelp.listCommand == "" {
		return "asks"
	}
	if n.openApprovals > 0 {
		return "asks: see " + safeLine(c.decisionHelp.listCommand)
	}
	if n.waitTotal > 0 {
		return fmt.Sprintf("waiting, %d of %d done", n.waitDone, n.waitTotal)
	}
	return "waiting"
}

// line returns the last non-empty line of the text.
func (t tail) line() string {
	lines := strings.Split(strings.TrimSpace(t.text), "\n")
	text := safeLine(strings.ToValidUTF8(lines[len(lines)-1], ""))
	if text != "" && t.thinking {
		return "thinking: " + text
	}
	return text
}

// reasonText formats a reason: "max iterations: 40 of 40".
func reasonText(r pb.Reason, detail string) string {
	name := strings.TrimPrefix(r.String(), "REASON_")
	name = strings.ToLower(strings.ReplaceAll(name, "_", " "))
	if r == pb.Reason_REASON_UNSPECIFIED {
		name = ""
	}
	detail = safeLine(detail)
	if name == "" || detail == "" {
		return name + detail
	}
	return name + ": " + detail
}
