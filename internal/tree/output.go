package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Output is what there is to read of a task: the same for every kind of task, and
// what its kind adds.
type Output struct {
	TaskID      TaskID `json:"task_id"`
	Kind        string `json:"kind"`
	Status      string `json:"status"`
	Description string `json:"description,omitempty"`
	// Output is the answer, or what an agent has said so far.
	Output string `json:"output"`

	// Of agents.
	Prompt string `json:"prompt,omitempty"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`

	// Of a run that goes on. Progress and Recent are left out if nothing has
	// changed since somebody looked last.
	Unchanged bool     `json:"unchanged,omitempty"`
	Progress  string   `json:"progress,omitempty"`
	Recent    []string `json:"recent,omitempty"`
	ToolUses  int      `json:"tool_uses"`
	Tokens    int64    `json:"tokens"`
}

// RunOutput is what there is to read of a run, and the answer with which it has ended, whole; or
// else its last words.
type RunOutput struct {
	Output
	Cut    bool // so that Output.Output is its end
	Answer string
	Words  string
}

// Text is the output as a model reads it.
func (o Output) Text() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("tree: encoding an output: %v", err))
	}
	return string(text)
}

// OutputFrom reads what a call keeps of the output of a run that went on.
func OutputFrom(text string) (Output, error) {
	var o Output
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("reading a stored output: %w", err)
	}
	return o, nil
}

// OutputOf gives the state of a task's current run as output; what was said is for
// the caller to add.
func OutputOf(t *Task) Output {
	return Output{
		TaskID: t.ID, Kind: t.Kind.String(), Status: t.status(), Description: t.Description, Output: t.Output,
		Progress: t.progress(), Recent: t.RecentActivities(), ToolUses: t.RunTools, Tokens: t.RunUsage.Total(),
	}
}

// Output is the outcome as output.
func (o Outcome) Output(t *Task) Output {
	out := Output{
		TaskID: t.ID, Kind: t.Kind.String(), Status: o.Run.State.String(), Description: t.Description,
		ToolUses: o.Run.ToolUses, Tokens: o.Run.Usage.Total(),
	}
	out.Output, _ = o.shown(o.Answer)
	if o.Run.State != StateCompleted {
		out.Reason, out.Error = o.Run.Reason.String(), o.Run.Detail
	}
	return out
}

func (k Kind) String() string {
	switch k {
	case KindAgent:
		return "agent"
	case KindShell:
		return "shell"
	}
	return "unspecified"
}

func (t *Task) status() string {
	if t.State.Active() {
		return queuedOrRunning(t)
	}
	return t.State.String()
}

// DefaultOutputBytes is how much of an output is shown when nothing else is
// configured.
const DefaultOutputBytes = 30 << 10

// Output is how many bytes of an output are shown.
func (l Limits) Output() int {
	if l.OutputBytes > 0 {
		return l.OutputBytes
	}
	return DefaultOutputBytes
}

// Tail keeps the end of text that has more than limit bytes, where answers
// conclude, below a line that says so and where the whole is.
func Tail(text string, limit int, whole func() string) (_ string, cut bool) {
	if len(text) <= limit {
		return text, false
	}
	end := excerpt.Tail(text, limit)
	return fmt.Sprintf(CutMark+"the first %d of %d bytes are left out; the whole is in %s]\n%s",
		len(text)-len(end), len(text), whole(), end), true
}

// CutMark begins the line that says that an output was cut.
const CutMark = "[cut: "

// promptShown is how much of a prompt is shown with an output, in bytes.
const promptShown = 4 << 10

// PromptShown is what is shown of the message that began a run.
func PromptShown(m *Message) string {
	for _, b := range m.Blocks {
		if text, ok := b.(Text); ok {
			return excerpt.Head(text.Text, promptShown)
		}
	}
	return ""
}

// TranscriptOf says where a task's transcript is.
func TranscriptOf(session SessionID, task TaskID) string {
	return fmt.Sprintf("sessions/%s/tasks/%s/transcript", session, task)
}

// setCallOutput closes a call's text with the state of a run that goes on. What the run has
// said up to now follows from its transcript, which only grows.
func (d *decision) setCallOutput(c *Call, target *Task) {
	out := OutputOf(target)
	if told := out.Progress; told == target.LastProgress {
		out.Unchanged, out.Progress, out.Recent = true, "", nil
	} else {
		target.LastProgress = told
		d.view.touchTask(target)
	}
	if c.Text = out.Text(); !target.isShell() {
		c.Upto = target.NextOrdinal - 1
	}
}

// progress is how far a run has come, in a line.
func (t *Task) progress() string {
	uses := "uses"
	if t.RunTools == 1 {
		uses = "use"
	}
	line := t.status()
	if t.State == StateWaiting {
		line = fmt.Sprintf("waiting, %d of %d done", t.Wait.Met, t.Wait.Total)
	}
	if !t.isShell() {
		line += fmt.Sprintf(", %d tool %s, %d tokens", t.RunTools, uses, t.RunUsage.Total())
	}
	if t.Activity != "" {
		line += ", last: " + t.Activity
	}
	return line
}

// recentActivities is how many activities of a run are remembered.
const recentActivities = 5

// RecentActivities gives the last things that the run was doing, oldest first.
func (t *Task) RecentActivities() []string {
	if t.Recent == "" {
		return nil
	}
	return strings.Split(t.Recent, "\n")
}

// addActivity notes what a run does now.
func (t *Task) addActivity(activity string) {
	activity = strings.TrimSpace(strings.NewReplacer("\n", " ", "\r", " ").Replace(activity))
	if activity == "" || activity == t.Activity {
		return
	}
	t.Activity = activity
	recent := append(t.RecentActivities(), excerpt.Head(activity, activityLength))
	t.Recent = strings.Join(recent[max(0, len(recent)-recentActivities):], "\n")
}

// activityLength is how much of an activity is remembered, in bytes.
const activityLength = 80

// Activity is a call in a few words: the tool and the first texts of its input.
func Activity(use ToolUse) string {
	line := use.Name
	var input map[string]any
	if json.Unmarshal(use.Input, &input) == nil {
		for _, key := range []string{"pattern", "path", "description", "command", "url", "task_id"} {
			if text, ok := input[key].(string); ok && text != "" {
				line += " " + text
			}
		}
	}
	return excerpt.Head(line, activityLength)
}

// activities are what calls of a message do, in their order: as many of the last as are
// remembered, without those that do the same as the next.
func activities(blocks []Block) (last []string) {
	var next ToolUse
	for _, b := range slices.Backward(blocks) {
		use, is := b.(ToolUse)
		if !is || use.Name == next.Name && bytes.Equal(use.Input, next.Input) {
			continue
		}
		next = use
		if a := Activity(use); len(last) == 0 || a != last[len(last)-1] {
			last = append(last, a)
		}
		if len(last) == recentActivities {
			break
		}
	}
	slices.Reverse(last)
	return last
}
