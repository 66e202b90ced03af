package chaos

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Trajectory describes a session without ids and times. Two sessions with the same scripts and
// the same first message have equal trajectories, however often their runs were delivered.
type Trajectory struct {
	Tasks map[string]TaskTrajectory // by path
}

// TaskTrajectory describes one task. Roles and contents of its transcript follow from the
// script, with two exceptions: news of background children arrives at any time, and calls may
// be cut off.
type TaskTrajectory struct {
	State         pb.TaskState
	Reason        pb.Reason
	Transcript    []string
	Deterministic bool // none of the exceptions occurred
}

// pathOf returns the place of a task in the tree: "root", followed by the message and block of
// each call that asked for a child, or by the description that a client gave. A branch is a root of
// its own.
func (p *sessionHistory) pathOf(l *taskHistory) string {
	s := l.firstStart()
	if l.branch != nil {
		return l.branch.GetDescription()
	}
	if s.GetParentId() == "" {
		return "root"
	}
	parent := p.tasks[s.GetParentId()]
	if parent == nil {
		return "lost/" + l.id
	}
	if parent.path == "" {
		parent.path = p.pathOf(parent)
	}
	if c := s.GetCall(); c != nil {
		return fmt.Sprintf("%s/%d.%d", parent.path, c.GetMessage(), c.GetBlock())
	}
	return parent.path + "/" + s.GetDescription()
}

// TrajectoryOf returns the trajectory of a session.
func TrajectoryOf(e *Evidence) *Trajectory { return trajectoryOf(e, historyOf(e.Events)) }

func trajectoryOf(e *Evidence, p *sessionHistory) *Trajectory {
	c := &Trajectory{Tasks: map[string]TaskTrajectory{}}
	for _, l := range p.order {
		if len(l.started) == 0 {
			continue
		}
		transcript := e.Transcripts[l.id]
		c.Tasks[l.path] = TaskTrajectory{
			State: l.state, Reason: l.lastResult().GetReason(), Transcript: normalised(transcript),
			Deterministic: len(l.queued) == 0 && len(l.started) == 1 && l.state != pb.TaskState_TASK_STATE_CANCELLED && !l.wasRefused() && !l.ranOut() &&
				!p.hasTimedChild(l) && !slices.ContainsFunc(transcript, isNondeterministic),
		}
	}
	return c
}

// ranOut reports whether the last run of the task ended because the budget was spent. Others decide how
// far it comes.
func (l *taskHistory) ranOut() bool {
	return l.lastResult().GetReason() == pb.Reason_REASON_BUDGET_EXHAUSTED
}

// hasTimedChild reports whether a child of the task was moved to the background, or was cancelled,
// as in a race.
func (p *sessionHistory) hasTimedChild(parent *taskHistory) bool {
	return slices.ContainsFunc(p.order, func(l *taskHistory) bool {
		return l.firstStart().GetParentId() == parent.id &&
			(len(l.backgrounded) > 0 || l.lastResult().GetReason() == pb.Reason_REASON_CANCELLED_BY_PARENT)
	})
}

// isNondeterministic reports whether a message depends on timing and not on the script.
func isNondeterministic(m *pb.Message) bool {
	return m.GetNews() != nil || slices.ContainsFunc(m.GetBlocks(), func(b *pb.Block) bool {
		return strings.HasPrefix(b.GetToolResult().GetText(), unknownOutcome)
	})
}

// The parts that differ between sessions: ids, and the durations of children.
var (
	idPattern       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	durationPattern = regexp.MustCompile(`duration_ms[\\"]*:[0-9]+`)
)

// unknownOutcome is the start of the result of a call whose worker was lost while it ran.
const unknownOutcome = "outcome unknown:"

// normalised returns roles and contents of a transcript without ids.
func normalised(transcript []*pb.Message) []string {
	lines := make([]string, len(transcript))
	for i, m := range transcript {
		line := fmt.Sprintf("%s:", m.GetRole())
		for _, b := range m.GetBlocks() {
			switch k := b.GetKind().(type) {
			case *pb.Block_Text:
				line += fmt.Sprintf(" text %q", k.Text.GetText())
			case *pb.Block_ToolUse:
				line += fmt.Sprintf(" call %s %s", k.ToolUse.GetName(), k.ToolUse.GetInputJson())
			case *pb.Block_ToolResult:
				line += fmt.Sprintf(" result %d %t %q", k.ToolResult.GetBlock(), k.ToolResult.GetIsError(), k.ToolResult.GetText())
			default:
				line += fmt.Sprintf(" %T", k)
			}
		}
		lines[i] = durationPattern.ReplaceAllString(idPattern.ReplaceAllString(line, "ID"), "duration")
	}
	return lines
}
