package tree

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestOutcomeText(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run := Run{
		Task: TaskID{15: 7}, Run: 2, State: StateCompleted, Answer: 4, ToolUses: 3,
		Usage:      Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4},
		AcceptedAt: start, StartedAt: start.Add(time.Second), EndedAt: start.Add(2500 * time.Millisecond),
	}
	failed := run
	failed.State, failed.Reason, failed.Detail = StateFailed, ReasonProviderError, "no answer"
	for _, c := range []struct {
		outcome Outcome
		want    string
	}{
		{
			Outcome{Run: run, Answer: "It is fine."},
			`{"task_id":"00000000-0000-0000-0000-000000000007","status":"completed","summary":"It is fine.",` +
				`"usage":{"tool_uses":3,"tokens":10,"duration_ms":2500,` +
				`"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4}}`,
		},
		{
			Outcome{Run: failed},
			`{"task_id":"00000000-0000-0000-0000-000000000007","status":"failed","reason":"PROVIDER_ERROR","error":"no answer",` +
				`"usage":{"tool_uses":3,"tokens":10,"duration_ms":2500,` +
				`"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4}}`,
		},
	} {
		if got := c.outcome.Text(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestNewsSayWhatBecameOfIt, so that nobody takes a child that was cancelled for one that has
// cancelled something.
func TestNewsSayWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	agent := &Task{Agent: "explore", Description: "Slow"}
	command := &Task{Kind: KindShell, Description: "make"}
	for _, c := range []struct {
		task  *Task
		state State
		want  string
	}{
		{agent, StateCompleted, "Your background agent completed: Slow (explore)"},
		{agent, StateFailed, "Your background agent failed: Slow (explore)"},
		{agent, StateCancelled, "Your background agent was cancelled: Slow (explore)"},
		{command, StateCancelled, "Your background command was cancelled: make"},
	} {
		if news := (Outcome{Run: Run{State: c.state}}).News(c.task); !strings.Contains(news, `"message":"`+c.want+`"`) {
			t.Errorf("not %q: %s", c.want, news)
		}
	}
}

func TestOutcomeKeepsTheEndOfALongAnswer(t *testing.T) {
	t.Parallel()
	var out struct {
		Summary string `json:"summary"`
		Cut     bool   `json:"summary_cut"`
	}
	text := Outcome{Run: Run{State: StateCompleted}, Answer: strings.Repeat("é", DefaultOutputBytes) + "the end"}.Text()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	if !out.Cut || !strings.HasSuffix(out.Summary, "éthe end") || len(out.Summary) > DefaultOutputBytes+200 {
		t.Errorf("cut: %t, %d bytes", out.Cut, len(out.Summary))
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		blocks []Block
		want   string
	}{
		{nil, ""},
		{texts([]string{"Read", "both."}), "Read\nboth."},
		{[]Block{Thinking{Text: "hm"}, Text{Text: "Go."}}, "Go."},
		{texts([]string{strings.Repeat("x", titleLength)}), strings.Repeat("x", titleLength)},
		{texts([]string{strings.Repeat("x", titleLength+1)}), strings.Repeat("x", titleLength) + "…"},
		{texts([]string{"x" + strings.Repeat("é", titleLength)}), "x" + strings.Repeat("é", (titleLength-1)/2) + "…"},
	} {
		if got := titleFrom(c.blocks); got != c.want {
			t.Errorf("%v: %q, want %q", c.blocks, got, c.want)
		}
	}
}

func TestNamesOfStatesAndReasons(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for s := StateNew; s <= StateCancelled; s++ {
		if name := s.String(); name == "unspecified" || seen[name] {
			t.Errorf("state %d is named %q", s, name)
		}
		seen[s.String()] = true
	}
	for r := ReasonToolError; r <= ReasonUnknown; r++ {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d is named %q", r, name)
		}
		seen[r.String()] = true
	}
	if State(99).String() != "unspecified" || Reason(99).String() != "UNKNOWN" {
		t.Error("a number without a meaning has a name of its own")
	}
}
