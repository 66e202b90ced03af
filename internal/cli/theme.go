package cli

import (
	"strings"

	"charm.land/lipgloss/v2"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// theme is the characters and the colours of a drawing.
type theme struct {
	spinner                    []string
	marks                      map[pb.TaskState]string
	branch, corner, bar, blank string // guides, all of one width
	ellipsis                   string // replaces what is left out
	separator                  string // separates the parts of a line
	resultArrow                string // before the result of a call
	callArrow                  string // before a call

	dim, bold, good, bad, busy lipgloss.Style
}

// newTheme returns the theme for a terminal with or without Unicode and colours.
func newTheme(unicode, colour bool) theme {
	l := asciiTheme()
	if unicode {
		l = unicodeTheme()
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

func unicodeTheme() theme {
	return theme{
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
		ellipsis: "…", separator: " · ", callArrow: "→", resultArrow: "←",
	}
}

func asciiTheme() theme {
	return theme{
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
		ellipsis: "...", separator: " - ", callArrow: "->", resultArrow: "<-",
	}
}

// mark returns the mark of a state. That of a running task is animated by frame; a negative frame
// is not animated.
func (l theme) mark(s pb.TaskState, frame int) string {
	sign := l.marks[s]
	switch {
	case sign == "":
		sign = "?"
	case s == pb.TaskState_TASK_STATE_RUNNING && frame >= 0:
		sign = l.spinner[frame%len(l.spinner)]
	}
	return l.stateStyle(s).Render(sign)
}

// stateStyle returns the colour of a state.
func (l theme) stateStyle(s pb.TaskState) lipgloss.Style {
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
func (l theme) guides(last []bool, most int) string {
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
		keep := max(1, (most-lipgloss.Width(l.ellipsis))/each)
		return l.ellipsis + strings.Join(parts[len(parts)-keep:], "")
	}
	return strings.Join(parts, "")
}
