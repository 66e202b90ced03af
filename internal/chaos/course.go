package chaos

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Course is how a session went, told without ids and times: two sessions with
// the same scripts and the same first message have the same course, however
// often their runs were delivered.
type Course struct {
	Tasks map[string]Passage // by path
}

// Passage is how one task of a session went. Roles and contents of the transcript
// follow from the script, unless news of background children came in between,
// which come when they come, or a call was cut off.
type Passage struct {
	State      pb.TaskState
	Transcript []string
	Determined bool // nothing came in between
}

// The path of a task says where it hangs: "root", and below it the message and
// block of each call that asked for a child, or the description that a client gave.
func (p *past) pathOf(l *life) string {
	s := l.first()
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

// CourseOf tells how a session went.
func CourseOf(e *Evidence) *Course { return courseOf(e, recount(e.Events)) }

func courseOf(e *Evidence, p *past) *Course {
	c := &Course{Tasks: map[string]Passage{}}
	for _, l := range p.order {
		if len(l.started) == 0 {
			continue
		}
		transcript := e.Transcripts[l.id]
		c.Tasks[l.path] = Passage{
			State: l.state, Transcript: told(transcript),
			Determined: l.queued == 0 && len(l.started) == 1 && !p.backed(l) && !slices.ContainsFunc(transcript, strayed),
		}
	}
	return c
}

// backed reports whether a child of a task was put into the background.
func (p *past) backed(parent *life) bool {
	return slices.ContainsFunc(p.order, func(l *life) bool {
		return l.first().GetParentId() == parent.id && len(l.backed) > 0
	})
}

// strayed reports whether a message is there because of how things happened to
// fall, and not because of the script.
func strayed(m *pb.Message) bool {
	return m.GetNews() != nil || slices.ContainsFunc(m.GetBlocks(), func(b *pb.Block) bool {
		return strings.HasPrefix(b.GetToolResult().GetText(), unknown)
	})
}

// What differs from run to run: ids, and how long a child took.
var (
	anID      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	aDuration = regexp.MustCompile(`duration_ms[\\"]*:[0-9]+`)
)

// unknown is how the result of a call begins whose worker was lost while it ran.
const unknown = "outcome unknown:"

// told gives roles and contents of a transcript without ids.
func told(transcript []*pb.Message) []string {
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
		lines[i] = aDuration.ReplaceAllString(anID.ReplaceAllString(line, "ID"), "duration")
	}
	return lines
}
