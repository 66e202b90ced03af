package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/tree"
)

func open(t *testing.T, env map[string]string) (*Telemetry, error) {
	t.Helper()
	m, err := Open(t.Context(), Config{
		Service: "test", Instance: "1", Getenv: func(name string) string { return env[name] }, Prometheus: true,
	})
	if err == nil {
		t.Cleanup(func() {
			if err := m.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	return m, err
}

// none is a replica with nothing to do.
func none(context.Context) (ReplicaState, error) { return ReplicaState{}, nil }

// text is the page of metrics.
func text(t *testing.T, m *Telemetry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestPage: what a replica measures can be fetched, with the names and labels that
// dashboards and autoscalers ask for.
func TestPage(t *testing.T) {
	t.Parallel()
	m, err := open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Replica("blue", func(context.Context) (ReplicaState, error) {
		return ReplicaState{
			Ready: 7, Held: 5, Running: 3, OldestReady: 2 * time.Second, OpenApprovals: 4, OldestApproval: time.Minute,
			Slots: 32, Streams: 16, Watchers: 5, LongestSilence: 90 * time.Second,
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Committed(12, []string{"STALE_TOKEN", "STALE_TOKEN"}, 4*time.Millisecond)
	r.Watched(3 * time.Millisecond)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := &tree.Task{Kind: tree.KindAgent, CurrentRun: tree.CurrentRun{State: tree.StateFailed, Reason: tree.ReasonTimeout}}
	for _, p := range []tree.CompletedPhase{
		{Phase: tree.PhaseQueued, First: true, Next: tree.StateRunning}, {Phase: tree.PhaseQueued, First: true, Next: tree.StateCancelled},
		{Phase: tree.PhaseParked}, {Phase: tree.PhaseAttempt, Lost: true, Next: tree.StatePending}, {Phase: tree.PhaseRun, Kind: tree.KindAgent, Ended: ended},
	} {
		p.Trace.ID, p.From, p.To = tree.TraceID{1}, at, at.Add(time.Second)
		r.Passed(tree.SessionID{1}, p)
	}
	page := text(t, m)
	for _, want := range []string{
		`coppice_work\{.*pool="blue",state="ready"\} 7`, `coppice_work\{.*pool="blue",state="held"\} 5`, `coppice_work\{.*pool="blue",state="running"\} 3`,
		`coppice_work_oldest_seconds\{.*pool="blue"\} 2`, `coppice_worker_slots\{.*pool="blue"\} 32`,
		`coppice_worker_streams\{.*\} 16`, `coppice_watchers\{.*\} 5`, `coppice_run_silent_oldest_seconds\{.*pool="blue"\} 90`,
		`coppice_approvals_open\{.*pool="blue"\} 4`, `coppice_approvals_oldest_seconds\{.*pool="blue"\} 60`,
		`coppice_command_refused_total\{.*reason="STALE_TOKEN"\} 2`, `coppice_commit_commands_sum\{.*\} 12`,
		`coppice_commit_duration_seconds_count\{.*\} 1`, `coppice_watch_lag_seconds_count\{.*\} 1`,
		`coppice_run_start_delay_seconds_sum\{.*pool="blue"\} 1`, `coppice_run_queue_wait_seconds_sum\{.*pool="blue"\} 2`,
		`coppice_run_park_time_seconds_sum\{.*pool="blue"\} 1`, `coppice_attempt_lost_total\{.*pool="blue"\} 1`,
		`coppice_run_duration_seconds_count\{kind="agent",.*pool="blue",reason="timeout",state="failed"\} 1`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(page) {
			t.Errorf("not on the page: %s", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// TestThePageWithoutTheDatabase: when nobody can say what work there is, all else is
// still measured.
func TestThePageWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	m, err := open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Replica("blue", func(context.Context) (ReplicaState, error) {
		return ReplicaState{Ready: 7, Streams: 16}, errors.New("the database is gone")
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Committed(12, nil, time.Second)
	page := text(t, m)
	if strings.Contains(page, "\ncoppice_work{") || strings.Contains(page, "\ncoppice_approvals_open{") || !strings.Contains(page, `pool="blue"} 16`) || !strings.Contains(page, "\ncoppice_commit_commands_sum{") {
		t.Error(page)
	}
}

// TestSampling: whether a trace is recorded follows from its id, or from what the
// client says that has begun it, so all who work on it agree.
func TestSampling(t *testing.T) {
	t.Parallel()
	half, err := open(t, map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"})
	if err != nil {
		t.Fatal(err)
	}
	low, high := tree.TraceID{15: 1}, tree.TraceID{8: 0xff, 15: 1}
	for _, c := range []struct {
		trace tree.Trace
		want  string
	}{
		{tree.Trace{ID: low}, "-01"},
		{tree.Trace{ID: high}, "-00"},
		{tree.Trace{ID: high, Parent: 1, Flags: tree.TraceGiven | 1}, "-01"},
		{tree.Trace{ID: low, Parent: 1, Flags: tree.TraceGiven}, "-00"},
	} {
		if got := half.TraceParent(&tree.Task{ID: tree.TaskID{1}, CurrentRun: tree.CurrentRun{Run: 1, Trace: c.trace}}); !strings.HasSuffix(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.trace, got, c.want)
		}
	}
	for _, env := range []map[string]string{
		{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
		{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"},
		{"OTEL_TRACES_SAMPLER": "traceidratio"},
		{"OTEL_TRACES_SAMPLER": "jaeger_remote"},
	} {
		if _, err := open(t, env); err == nil {
			t.Errorf("%v is taken", env)
		}
	}
}

// TestWhatCanNotBeDone: who asks for an exporter or a protocol that there is not is told so,
// instead of nothing being sent, or it being sent in a way that nobody there understands.
func TestWhatCanNotBeDone(t *testing.T) {
	t.Parallel()
	const endpoint, protocol, headers = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS"
	for name, test := range map[string]struct {
		env  map[string]string
		want string // in the refusal; empty: it is taken
	}{
		"gRPC":                         {map[string]string{endpoint: "http://127.0.0.1:4317", protocol: "grpc", "OTEL_TRACES_EXPORTER": "otlp"}, ""},
		"a socket":                     {map[string]string{endpoint: "unix:///nowhere/otlp"}, ""},
		"no scheme, and not sent":      {map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "127.0.0.1:4317", "OTEL_LOGS_EXPORTER": "none"}, ""},
		"no scheme":                    {map[string]string{endpoint: "127.0.0.1:4317"}, endpoint + " must be a URL"},
		"a name and no scheme":         {map[string]string{endpoint: "localhost:4317"}, endpoint + " must be a URL"},
		"another scheme":               {map[string]string{endpoint: "foo://127.0.0.1:1"}, endpoint + " must be a URL"},
		"no host for logs":             {map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://"}, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT must be a URL"},
		"HTTP":                         {map[string]string{endpoint: "http://127.0.0.1:4318", protocol: "http/protobuf"}, `OTEL_EXPORTER_OTLP_PROTOCOL is "http/protobuf"`},
		"HTTP for logs":                {map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL is"},
		"HTTP for others":              {map[string]string{endpoint: "http://127.0.0.1:4317", protocol: "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}, ""},
		"HTTP, and nothing is sent":    {map[string]string{protocol: "http/protobuf"}, ""},
		"the console":                  {map[string]string{"OTEL_TRACES_EXPORTER": "console"}, `OTEL_TRACES_EXPORTER is "console"`},
		"Prometheus":                   {map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, "OTEL_METRICS_EXPORTER is"},
		"several":                      {map[string]string{endpoint: "http://127.0.0.1:4317", "OTEL_LOGS_EXPORTER": "otlp,console"}, "OTEL_LOGS_EXPORTER is"},
		"the console, and all is off":  {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"}, ""},
		"headers":                      {map[string]string{endpoint: "http://127.0.0.1:4317", headers: "authorization=Basic%20a2V5,x-scope = 1"}, ""},
		"headers, and nothing is sent": {map[string]string{headers: "authorization: Bearer key"}, ""},
		"a header as HTTP writes it":   {map[string]string{endpoint: "http://127.0.0.1:4317", headers: "authorization: Bearer key"}, headers + " must be like name=value"},
		"a header that is no name":     {map[string]string{endpoint: "http://127.0.0.1:4317", headers: "x y=key"}, headers + " must be like name=value"},
		"a percent sign in a header":   {map[string]string{endpoint: "http://127.0.0.1:4317", headers: "authorization=key%"}, headers + " must be like name=value"},
		"a header of logs":             {map[string]string{endpoint: "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "a=b,key"}, "OTEL_EXPORTER_OTLP_LOGS_HEADERS must be like name=value"},
		"HTTP to where it is not sent": {map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, ""},
	} {
		m, err := Open(t.Context(), Config{Service: "test", Instance: "1", Getenv: func(name string) string { return test.env[name] }})
		if (err == nil) != (test.want == "") || err != nil && (strings.Count(err.Error(), test.want) != 1 || strings.Contains(err.Error(), "key")) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err == nil {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := m.Close(gone); err != nil && !errors.Is(err, context.Canceled) { // nobody takes what is left
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestParents: what a client sends as its span is what its runs hang below; garbage is
// passed over.
func TestParents(t *testing.T) {
	t.Parallel()
	const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := TraceFromContext(WithTraceParent(t.Context(), header)); got.Parent != 0xb7ad6b7169203331 || got.ID[0] != 0x0a || got.Flags != tree.TraceGiven|1 {
		t.Errorf("%s is read as %+v", header, got)
	}
	for _, garbage := range []string{
		"", "00", header[:54], header + "-00", "01" + header[2:], "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", strings.ToUpper(header), strings.Repeat("-", 3),
	} {
		if got := TraceFromContext(WithTraceParent(t.Context(), garbage)); !got.IsZero() {
			t.Errorf("%q is read as %+v", garbage, got)
		}
	}
}

// TestWhetherSomebodyMeasures: spans or metrics go somewhere, or there is a page of metrics.
func TestWhetherSomebodyMeasures(t *testing.T) {
	t.Parallel()
	const endpoint = "http://127.0.0.1:4317"
	for name, test := range map[string]struct {
		env  map[string]string
		page bool
		want bool
	}{
		"nothing is asked for": {},
		"a page":               {page: true, want: true},
		"all signals":          {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, want: true},
		"spans":                {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, want: true},
		"metrics":              {env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": endpoint}, want: true},
		"logs":                 {env: map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": endpoint}},
	} {
		m, err := Open(t.Context(), Config{
			Service: "test", Instance: "1", Getenv: func(name string) string { return test.env[name] }, Prometheus: test.page,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Enabled(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Close(gone); err != nil && !errors.Is(err, context.Canceled) { // nobody takes what is left
			t.Errorf("%s: %v", name, err)
		}
	}
	if (*Telemetry)(nil).Enabled() {
		t.Error("nobody measures")
	}
}

// sending sends one signal to a sink.
func sending(t *testing.T, signal string) (*otlptest.Sink, *Telemetry) {
	t.Helper()
	sink := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT", sink.Endpoint()) // the exporter itself looks there
	m, err := Open(t.Context(), Config{Service: "test", Instance: "1", Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	return sink, m
}

// TestWhatIsSentOfLogs is what is written here too: nothing that is for debugging.
func TestWhatIsSentOfLogs(t *testing.T) {
	sink, m := sending(t, "LOGS")
	log := slog.New(m.LogHandler(slog.DiscardHandler))
	log.Debug("hidden")
	log.With("a", 1).WithGroup("g").Debug("hidden")
	log.With("a", 1).WithGroup("g").Info("shown")
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := sink.Logs(); n != 1 {
		t.Errorf("%d lines were sent, want 1", n)
	}
}

// TestACallOfAToolSaysWhose it is, as a call of the model does.
func TestACallOfAToolSaysWhose(t *testing.T) {
	sink, m := sending(t, "TRACES")
	session, task := tree.SessionID{1}, tree.TaskID{2}
	_, done := m.Tool(t.Context(), session, task, "2-1-0", tree.ToolUse{Name: "ls"})
	done("", false)
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := sink.Until("the call is there", func(spans []otlptest.Span) bool { return len(spans) == 1 })[0]
	for name, want := range map[string]string{
		"gen_ai.conversation.id": session.String(), "coppice.session.id": session.String(), "coppice.task.id": task.String(), "gen_ai.tool.call.id": "2-1-0",
	} {
		if s.Texts[name] != want {
			t.Errorf("%s is %q, want %q", name, s.Texts[name], want)
		}
	}
}

// TestTheCallOfAFailedChildIsAnError, as that of any other tool is; one that has ended well is
// none.
func TestTheCallOfAFailedChildIsAnError(t *testing.T) {
	sink, m := sending(t, "TRACES")
	r, err := m.Runs("blue")
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range []tree.CurrentRun{{State: tree.StateCompleted}, {State: tree.StateFailed, Reason: tree.ReasonTimeout}} {
		r.Passed(tree.SessionID{1}, tree.CompletedPhase{
			Phase: tree.PhaseCall, Trace: tree.Trace{ID: [16]byte{1}, Flags: 1, Parent: 1}, From: time.Now(), To: time.Now(),
			Ended: &tree.Task{ID: tree.TaskID{byte(i + 1)}, Kind: tree.KindAgent, CurrentRun: run},
		})
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := map[string]bool{}
	for _, s := range sink.Until("both calls are there", func(spans []otlptest.Span) bool { return len(spans) == 2 }) {
		failed[s.Texts["error.type"]] = s.Failed
	}
	if len(failed) != 2 || failed[""] || !failed["timeout"] {
		t.Errorf("failed, by the type of their errors, are %v", failed)
	}
}
