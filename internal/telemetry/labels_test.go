package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestNamesOfModelsAreBounded: a name gets to be a label by an answer alone, and so many
// at most, whatever is asked for and whatever answers say.
func TestNamesOfModelsAreBounded(t *testing.T) {
	t.Parallel()
	n := newModelNames()
	if got := n.label("oak"); got != other {
		t.Errorf("a name that nobody has answered under is the label %q", got)
	}
	for name, want := range map[string]string{"oak": "oak", "": other, strings.Repeat("o", maxNameBytes+1): other} {
		if got := n.learn(name); got != want || n.label(name) != want {
			t.Errorf("an answer of %q has the labels %q and %q, want %q", name, got, n.label(name), want)
		}
	}
	seen := map[string]bool{}
	for i := range 10 * maxModelNames {
		seen[n.learn(fmt.Sprint("model ", i))] = true
	}
	if len(seen) != maxModelNames { // oak is one, and other stands for the rest
		t.Errorf("there are %d labels, want %d", len(seen), maxModelNames)
	}
	if got := n.label("oak"); got != "oak" {
		t.Errorf("the first name is the label %q by now", got)
	}
}

// TestSeriesAreBounded makes calls of ever new models, and counts the series.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	m, err := open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	tries, err := m.RetryMetrics()
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Replica("blue", none)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 * maxModelNames {
		name := fmt.Sprint("made-up-", i)
		tries.Tried("acme", name, model.ErrorRateLimited, true)
		tries.Paused("acme", name, time.Second)
		tries.Queued("acme", name, time.Second)
	}
	page := text(t, m)
	for _, want := range []string{
		`coppice_provider_failures_total{kind="rate limited",model="_OTHER",`, `coppice_provider_wait_seconds_count{model="_OTHER",`,
	} {
		if !strings.Contains(page, "\n"+want) {
			t.Errorf("not on the page: %s", want)
		}
	}
	if strings.Contains(page, "made-up") {
		t.Error("a name that was only asked for is a label")
	}
	for i := range 5 * maxModelNames {
		r.Spent(fmt.Sprint("echoed-", i), 1)
	}
	if n := strings.Count(text(t, m), "\ncoppice_cost_usd_total{"); n != maxModelNames+1 {
		t.Errorf("%d models have a cost of their own, want %d and one for all others", n, maxModelNames)
	}
}

// TestNothingIsMadeToCount: labels are ready when something is counted.
func TestNothingIsMadeToCount(t *testing.T) {
	m, err := open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Replica("blue", none)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := m.TraceModel(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := &model.Answer{Model: "oak", Usage: tree.Usage{Input: 3, Output: 4}}
	ended := &tree.Task{Kind: tree.KindAgent, CurrentRun: tree.CurrentRun{State: tree.StateCompleted}}
	refused := []string{"STALE_TOKEN"}
	verdict := tree.SpawnOutcome{Kind: tree.KindAgent, Refused: "NO_SUCH_AGENT"}
	for what, count := range map[string]func(){
		"a part of a run": func() { r.count(tree.CompletedPhase{Phase: tree.PhaseAttempt, Next: tree.StateWaiting}) },
		"a run":           func() { r.count(tree.CompletedPhase{Phase: tree.PhaseRun, Kind: tree.KindAgent, Ended: ended}) },
		"a transaction":   func() { r.Committed(1, refused, time.Millisecond) },
		"a verdict":       func() { r.Judged(verdict) },
		"a cost":          func() { r.Spent("oak", 7) },
		"an answer": func() {
			asked.(*tracedModel).count(t.Context(), "p", answer, nil, time.Second, time.Millisecond)
		},
	} {
		count()
		if n := testing.AllocsPerRun(100, count); n > 0 {
			t.Errorf("counting %s allocates %g times", what, n)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	m, err := Open(b.Context(), Config{Service: "test", Instance: "1", Getenv: func(string) string { return "" }, Prometheus: true})
	if err != nil {
		b.Fatal(err)
	}
	r, err := m.Replica("blue", none)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r.count(tree.CompletedPhase{Phase: tree.PhaseAttempt, Next: tree.StateWaiting})
	}
}
