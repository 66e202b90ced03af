package assembly_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/retry"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/telemetry"
)

// wide is a root that waits for six children, each of which looks around.
const wide = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, for_each: numbers 6, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore}}]
  - when: {turn: 1}
    calls: [{tool: ls, input: {path: .}}]
  - {text: done}
`

// unwilling is a model that refuses whoever says so.
type unwilling struct{ model.Model }

const refuseMe = "refuse me"

func (m unwilling) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	if req.Messages[0].Text() == refuseMe {
		return nil, &model.Error{Kind: model.ErrorInvalid, Err: errors.New("as you wish")}
	}
	return m.Model.Generate(ctx, req, emit)
}

// measured starts everything in one process that measures itself, whose provider takes
// too few requests a second.
func measured(t *testing.T) (*client, *telemetry.Telemetry, *fakellm.Server) {
	t.Helper()
	m, err := telemetry.Open(t.Context(), telemetry.Config{Service: "test", Instance: "1", Getenv: func(string) string { return "" }, Prometheus: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	tries, err := m.RetryMetrics()
	if err != nil {
		t.Fatal(err)
	}
	played, err := scripted.Parse("wide.yaml", []byte(wide))
	if err != nil {
		t.Fatal(err)
	}
	fake := fakellm.New(fakellm.Config{Model: scripted.New(played), Rate: 4})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	adapter, err := apis["anthropic"](server.URL)
	if err != nil {
		t.Fatal(err)
	}
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("prices: [{name: '*', input: 1000, output: 1000, cache_read: 1000, cache_write: 1000}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return setup(t, wide, func(d *assembly.Dev) {
		d.Telemetry, d.Files.Prices = m, prices
		d.Limiter = ratelimit.New(slog.New(slog.DiscardHandler))
		d.Model, err = retry.New(retry.Config{
			Model: unwilling{adapter}, Limiter: d.Limiter, Bucket: func(string) string { return "fake:0" },
			InitialPause: 20 * time.Millisecond, MaxPause: 100 * time.Millisecond, Provider: "anthropic", Observer: tries,
		})
		if err != nil {
			t.Fatal(err)
		}
	}), m, fake
}

// TestThePageIsWhatTheDocumentationSays runs a tree with all that is counted, and holds
// the names and the labels on the page against the tables of the documentation, both
// ways. The queries of the dashboard are held against these tables elsewhere.
func TestThePageIsWhatTheDocumentationSays(t *testing.T) {
	t.Parallel()
	c, m, fake := measured(t)
	session := c.create("go").GetId()
	if root := c.settled(session); root.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		t.Fatalf("the root ended %s: %s", root.GetState(), root.GetDetail())
	}
	if root := c.settled(c.create(refuseMe).GetId()); root.GetState() != pb.TaskState_TASK_STATE_FAILED {
		t.Fatalf("who wanted to be refused ended %s", root.GetState())
	}
	if _, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "nobody", Prompt: "go"}); err == nil {
		t.Fatal("an agent that there is not was spawned")
	}
	page := counted(t, c, session, m, fake)
	got, want := onPage(t, page), documented(t)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if labels, there := got[name]; !there {
			t.Errorf("%s is documented, and not on the page", name)
		} else if !slices.Equal(labels, want[name]) {
			t.Errorf("%s has the labels %v, and %v in the documentation", name, labels, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			t.Errorf("%s is on the page, and not documented", name)
		}
	}
}

// counted gives the page, once its numbers are those of the tree that it is of: what has
// happened is counted a moment after it is told.
func counted(t *testing.T, c *client, session string, m *telemetry.Telemetry, fake *fakellm.Server) (page string) {
	t.Helper()
	whole, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	limited, cost := float64(fake.Counts().Limited), whole.GetSession().GetUsage().GetCostMicros()
	if limited == 0 || cost == 0 {
		t.Errorf("%g requests were refused, and the session has cost %d", limited, cost)
	}
	want := map[string]float64{
		`coppice_spawn_started_total{kind="agent"`:                        6,
		`coppice_spawn_refused_total{kind="agent",reason="NO_SUCH_AGENT"`: 1,
		`coppice_run_duration_seconds_count{kind="agent",state="failed"`:  1,
		`coppice_run_duration_seconds_count{state="completed"`:            7,
		`coppice_attempt_ended_total{outcome="parked"`:                    1,
		`coppice_attempt_ended_total{outcome="completed"`:                 7,
		`coppice_run_start_delay_seconds_count{`:                          8,
		`coppice_provider_failures_total{kind="rate limited",provider="a`: limited,
		`coppice_provider_failures_total{kind="invalid request"`:          1,
		`coppice_provider_wait_seconds_count{reason="failure"`:            limited,
		`coppice_slots{state="used"`:                                      0,
		`coppice_slots{state="free"`:                                      assembly.DefaultSlots,
		`coppice_worker_slots{`:                                           assembly.DefaultSlots,
		`coppice_attempt_taken_over_total{`:                               0,
		`coppice_worker_dead_total{`:                                      0,
		`coppice_cost_usd_total{`:                                         float64(cost) / 1e6,
		`gen_ai_client_operation_duration_seconds_count{error_type="inv`:  1,
	}
	var wrong []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(wrong, page)
		}
	})
	until(t, "the page says what has happened", func() bool {
		page, wrong = fetch(t, m), nil
		for name, n := range want {
			if got := sum(t, page, name); math.Abs(got-n) > 1e-9 {
				wrong = append(wrong, fmt.Sprintf("%s…} is %g, want %g", name, got, n))
			}
		}
		return len(wrong) == 0
	})
	return page
}

// fetch gives the page of metrics.
func fetch(t *testing.T, m *telemetry.Telemetry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// documented gives the metrics of the documentation with their labels in order.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `coppice_") && !strings.HasPrefix(cells[1], " `gen_ai_") {
			continue
		}
		labels := []string{}
		for _, l := range quoted.FindAllStringSubmatch(cells[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		all[quoted.FindStringSubmatch(cells[1])[1]] = labels
	}
	if len(all) == 0 {
		t.Fatal("no metric is documented")
	}
	return all
}
