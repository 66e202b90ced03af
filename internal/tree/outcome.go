package tree

import (
	"encoding/json"
	"fmt"
)

// Limits of texts about a run, in bytes. Longer details and activities are cut; longer names are
// refused.
const (
	maxDetail   = 4 << 10
	maxActivity = 1 << 10
	maxName     = 1 << 10 // a description, a model, a worker
)

// Outcome is how a child's run ended, as its parent's model sees it.
type Outcome struct {
	Run     Run
	Answer  string // the result with the text of the answer; empty if there is none
	Words   string // the last words of an unfinished run; empty: there are none
	Session SessionID
	Limit   int // how much of the answer is shown; 0: DefaultOutputBytes
}

// outcomeText is the outcome as a model reads it.
type outcomeText struct {
	TaskID     TaskID       `json:"task_id"`
	Status     string       `json:"status"`
	Message    string       `json:"message,omitempty"`
	Summary    string       `json:"summary,omitempty"`
	Cut        bool         `json:"summary_cut,omitempty"`
	Words      string       `json:"unfinished,omitempty"`
	WordsCut   bool         `json:"unfinished_cut,omitempty"`
	Reason     string       `json:"reason,omitempty"`
	Error      string       `json:"error,omitempty"`
	Usage      outcomeUsage `json:"usage"`
	Transcript string       `json:"transcript,omitempty"`
}

type outcomeUsage struct {
	ToolUses   int   `json:"tool_uses"`
	Tokens     int64 `json:"tokens"`
	DurationMS int64 `json:"duration_ms"`
	Iterations int   `json:"iterations,omitempty"`
	Input      int64 `json:"input_tokens,omitempty"`
	Output     int64 `json:"output_tokens,omitempty"`
	CacheRead  int64 `json:"cache_read_tokens,omitempty"`
	CacheWrite int64 `json:"cache_write_tokens,omitempty"`
}

// SetAnswerText takes in the text of the message that the run names as its answer.
func (o *Outcome) SetAnswerText(text string) {
	if o.Run.Unfinished() {
		o.Words = text
		return
	}
	o.Answer = o.Run.ResultText(text)
}

// Text is the bounded summary that becomes a call's result. It is the same bytes each time, because
// an outcome never changes.
func (o Outcome) Text() string { return o.text().encode() }

// News is the outcome as a message of its own. It also says which task it is about, and where the
// rest is.
func (o Outcome) News(t *Task) string {
	out := o.text()
	name := t.Agent
	if t.Description != "" {
		name = fmt.Sprintf("%s (%s)", t.Description, t.Agent)
	}
	has := out.Status // it "completed" or "failed"
	if o.Run.State == StateCancelled {
		has = "was cancelled"
	}
	out.Message = fmt.Sprintf("Your background agent %s: %s", has, name)
	if t.isShell() {
		out.Message = fmt.Sprintf("Your background command %s: %s", has, t.Description)
	}
	out.Transcript = TranscriptOf(o.Session, o.Run.Task)
	return out.encode()
}

func (o Outcome) text() outcomeText {
	u := o.Run.Usage
	out := outcomeText{
		TaskID: o.Run.Task, Status: o.Run.State.String(),
		Usage: outcomeUsage{
			ToolUses: o.Run.ToolUses, Tokens: u.Total(), Iterations: o.Run.Iterations,
			DurationMS: o.Run.EndedAt.Sub(o.Run.AcceptedAt).Milliseconds(),
			Input:      u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		},
	}
	out.Summary, out.Cut = o.shown(o.Answer)
	out.Words, out.WordsCut = o.shown(o.Words)
	if o.Run.State != StateCompleted {
		out.Reason, out.Error = o.Run.Reason.String(), o.Run.Detail
	}
	return out
}

func (o outcomeText) encode() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("tree: encoding an outcome: %v", err))
	}
	return string(text)
}

// shown is the part of a text that is shown.
func (o Outcome) shown(text string) (string, bool) {
	return Tail(text, Limits{OutputBytes: o.Limit}.Output(), func() string {
		return fmt.Sprintf("message %d of %s", o.Run.Answer, TranscriptOf(o.Session, o.Run.Task))
	})
}

func (s State) String() string {
	switch s {
	case StateNew:
		return "new"
	case StatePending:
		return "pending"
	case StateRunning:
		return "running"
	case StateWaiting:
		return "waiting"
	case StateCompleted:
		return "completed"
	case StateFailed:
		return "failed"
	case StateCancelled:
		return "cancelled"
	}
	return "unspecified"
}

var reasonNames = [...]string{
	"", "TOOL_ERROR", "APPROVAL_DENIED", "RUNTIME_ERROR", "PROVIDER_ERROR", "INTERRUPTED",
	"MAX_ITERATIONS", "TIMEOUT", "DEADLINE", "BUDGET_EXHAUSTED", "REJECTED", "POISONED",
	"CANCELLED_BY_USER", "CANCELLED_BY_PARENT", "ABANDONED", "UNKNOWN",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "UNKNOWN"
}
