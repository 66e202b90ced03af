package cli

import (
	"strings"

	"charm.land/lipgloss/v2"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// look is the style of a drawing: its characters and its colours.
type look struct {
	spinner                    []string
	marks                      map[pb.TaskState]string
	branch, corner, bar, blank string // guides, all of one width
	more                       string // replaces what is left out
	dot                        string // separates the parts of a line
	closed                     string // before the result of a call
	call                       string // before a call

	dim, bold, good, bad, busy lipgloss.Style
}

// newLook returns the style for a terminal with or without Unicode and colours.
func newLook(unicode, colour bool) look {
	l := asciiLook()
	if unicode {
		l = unicodeLook()
	}
	plain := lipgloss.NewStyle().TabWidth(lipgloss.NoTabConversion)
	l.dim, l.bold, l.good, l.bad, l.busy = plain, plain, plain, plain, plain
	if colour {
		l.dim = plain.Faint(true)
		l.bold = plain.Bold(true)
		l.good = plain.Foreground(lipgloss.Green)
		l.bad = plain.Foreground(lipgloss.Red)
		l.busy = plain.Foreground(lipgloss.Cyan)
	}
	return l
}

func unicodeLook() look {
	return look{
		spinner: []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"},
		marks: map[pb.TaskState]string{
			pb.TaskState_TASK_STATE_NEW:       "◌",
			pb.TaskState_TASK_STATE_PENDING:   "◌",
			pb.TaskState_TASK_STATE_RUNNING:   "●",
			pb.TaskState_TASK_STATE_WAITING:   "⏸",
			pb.TaskState_TASK_STATE_COMPLETED: "✓",
			pb.TaskState_TASK_STATE_FAILED:    "✗",
			pb.TaskState_TASK_STATE_CANCELLED: "⊘",
		},
		branch: "├─ ", corner: "└─ ", bar: "│  ", blank: "   ",
		more: "…", dot: " · ", call: "→", closed: "←",
	}
}

func asciiLook() look {
	return look{
		spinner: []string{"-", `\`, "|", "/"},
		marks: map[pb.TaskState]string{
			pb.TaskState_TASK_STATE_NEW:       ".",
			pb.TaskState_TASK_STATE_PENDING:   ".",
			pb.TaskState_TASK_STATE_RUNNING:   "*",
			pb.TaskState_TASK_STATE_WAITING:   "=",
			pb.TaskState_TASK_STATE_COMPLETED: "+",
			pb.TaskState_TASK_STATE_FAILED:    "x",
			pb.TaskState_TASK_STATE_CANCELLED: "o",
		},
		branch: "|- ", corner: "`- ", bar: "|  ", blank: "   ",
		more: "...", dot: " - ", call: "->", closed: "<-",
	}
}

// mark returns the mark of a state. That of a running task is animated by frame; a negative frame
// is not animated.
func (l look) mark(s pb.TaskState, frame int) string {
	sign := l.marks[s]
	switch {
	case sign == "":
		sign = "?"
	case s == pb.TaskState_TASK_STATE_RUNNING && frame >= 0:
		sign = l.spinner[frame%len(l.spinner)]
	}
	return l.ofState(s).Render(sign)
}

// ofState returns the colour of a state.
func (l look) ofState(s pb.TaskState) lipgloss.Style {
	switch s {
	case pb.TaskState_TASK_STATE_RUNNING:
		return l.busy
	case pb.TaskState_TASK_STATE_COMPLETED:
		return l.good
	case pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_CANCELLED:
		return l.bad
	}
	return l.dim
}

// guides draws the lines that lead to a row, in at most a number of cells (0: no bound). The
// levels that are nearest to the row are kept.
func (l look) guides(last []bool, most int) string {
	var parts []string
	for i, isLast := range last {
		switch {
		case i == len(last)-1 && isLast:
			parts = append(parts, l.corner)
		case i == len(last)-1:
			parts = append(parts, l.branch)
		case isLast:
			parts = append(parts, l.blank)
		default:
			parts = append(parts, l.bar)
		}
	}
	each := lipgloss.Width(l.blank)
	if most > 0 && len(parts)*each > most {
		keep := max(1, (most-lipgloss.Width(l.more))/each)
		return l.more + strings.Join(parts[len(parts)-keep:], "")
	}
	return strings.Join(parts, "")
}
