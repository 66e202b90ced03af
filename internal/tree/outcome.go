package tree

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Bounds of what is said about a run beside its transcript, in bytes. Longer
// details, summaries and activities are cut; longer names are refused.
const (
	maxDetail   = 4 << 10
	maxSummary  = 30 << 10
	maxActivity = 1 << 10
	maxName     = 1 << 10 // a description, a model, a worker
)

// Outcome is how a child's run ended, as its parent's model sees it.
type Outcome struct {
	Run    Run
	Answer string // the text of the answer; empty if there is none
}

// Text is the bounded summary that becomes a call's result or a message: the
// same bytes each time, since an outcome never changes.
func (o Outcome) Text() string {
	type usage struct {
		ToolUses   int   `json:"tool_uses"`
		Tokens     int64 `json:"tokens"`
		DurationMS int64 `json:"duration_ms"`
	}
	summary, cut := bounded(o.Answer, maxSummary)
	out := struct {
		TaskID  TaskID `json:"task_id"`
		Status  string `json:"status"`
		Summary string `json:"summary,omitempty"`
		Cut     bool   `json:"summary_cut,omitempty"`
		Reason  string `json:"reason,omitempty"`
		Error   string `json:"error,omitempty"`
		Usage   usage  `json:"usage"`
	}{
		TaskID: o.Run.Task, Status: o.Run.State.String(), Summary: summary, Cut: cut, Error: o.Run.Detail,
		Usage: usage{o.Run.ToolUses, o.Run.Usage.Total(), o.Run.EndedAt.Sub(o.Run.AcceptedAt).Milliseconds()},
	}
	if o.Run.State != StateCompleted {
		out.Reason = o.Run.Reason.String()
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(fmt.Sprintf("tree: encoding an outcome: %v", err))
	}
	return string(text)
}

// bounded cuts text to at most limit bytes at a rune's edge; it keeps the end,
// where answers conclude.
func bounded(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	start := len(text) - limit
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:], true
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
