package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Output is the readable output of a task: fields for every kind of task, and fields for its kind.
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

	// Of a run under way. Progress and Recent are left out if nothing has changed since the output
	// was last read.
	Unchanged bool     `json:"unchanged,omitempty"`
	Progress  string   `json:"progress,omitempty"`
	Recent    []string `json:"recent,omitempty"`
	ToolUses  int      `json:"tool_uses"`
	Tokens    int64    `json:"tokens"`
}

// RunOutput is the output of a run, and its whole answer, or else its last words.
type RunOutput struct {
	Output
	Cut    bool // Output.Output is only the end
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

// OutputFrom decodes the output that a call has stored of a run under way.
func OutputFrom(text string) (Output, error) {
	var o Output
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("reading a stored output: %w", err)
	}
	return o, nil
}

// OutputOf gives the output of a task's current run. The caller adds what the run has said.
func OutputOf(t *Task) Output {
	return Output{
		TaskID: t.ID, Kind: t.Kind.String(), Status: t.status(), Description: t.Description, Output: t.Output,
		Progress: t.progress(), Recent: t.RecentActivities(), ToolUses: t.RunTools, Tokens: t.RunUsage.Total(),
	}
}

// Output gives the outcome as an output.
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

// DefaultOutputBytes is the default for how much of an output is shown.
const DefaultOutputBytes = 30 << 10

// Output is how many bytes of an output are shown.
func (l Limits) Output() int {
	if l.OutputBytes > 0 {
		return l.OutputBytes
	}
	return DefaultOutputBytes
}

// Tail keeps the end of a text that has more than limit bytes, because answers conclude there. A
// first line says that the text was cut, and where the whole is.
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

// PromptShown is the part of a prompt that is shown.
func PromptShown(m *Message) string {
	for _, b := range m.Blocks {
		if text, ok := b.(Text); ok {
			return excerpt.Head(text.Text, promptShown)
		}
	}
	return ""
}

// TranscriptOf is the resource name of a task's transcript.
func TranscriptOf(session SessionID, task TaskID) string {
	return fmt.Sprintf("sessions/%s/tasks/%s/transcript", session, task)
}

// setCallOutput sets a call's text to the state of a run under way. What the run has said up to now
// is read from its transcript later, which only grows.
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

// progress describes how far a run has come, in one line.
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

// recentActivities is how many activities of a run are kept.
const recentActivities = 5

// RecentActivities returns the last activities of the run, oldest first.
func (t *Task) RecentActivities() []string {
	if t.Recent == "" {
		return nil
	}
	return strings.Split(t.Recent, "\n")
}

// addActivity records the run's current activity.
func (t *Task) addActivity(activity string) {
	activity = strings.TrimSpace(strings.NewReplacer("\n", " ", "\r", " ").Replace(activity))
	if activity == "" || activity == t.Activity {
		return
	}
	t.Activity = activity
	recent := append(t.RecentActivities(), excerpt.Head(activity, activityLength))
	t.Recent = strings.Join(recent[max(0, len(recent)-recentActivities):], "\n")
}

// activityLength limits an activity, in bytes.
const activityLength = 80

// Activity describes a call in a few words: the tool and the main texts of its input.
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

// activities describes the last calls of a message, in their order: as many as are kept, without
// repeats of the next one.
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
