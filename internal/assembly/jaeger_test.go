//go:build jaeger

package assembly_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/jaegertest"
	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
)

// The workers of the Jaeger test. Each has one slot, so that three leaves that are held
// are one of each worker, and nothing else is under way.
var foresters = []string{"worker 1", "worker 2", "worker 3"}

// startForest starts two orchestrators, each with a worker of its own at least, that
// send what they trace to Jaeger.
func startForest(t *testing.T, jaeger *jaegertest.Server) *deployment {
	t.Helper()
	d := deploy(t, heldTree)
	d.database = pgtest.Start(t).Database(t)
	d.addresses = append(d.addresses, proctest.FreeAddress(t))
	d.environ = map[string][]string{"": {
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + jaeger.Endpoint(), "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none", // Jaeger takes none
	}}
	d.workerFlags = []string{"--slots", "1"}
	for i := range d.addresses {
		d.startOrchestrator(i)
	}
	for i, name := range foresters {
		i %= len(d.addresses)
		alone := *d
		alone.addresses = d.addresses[i : i+1]
		alone.startWorker(name)
	}
	return d
}

// TestJaeger runs a tree on two orchestrators and three workers, one of which is killed
// in mid-run, and holds what Jaeger has of it against what the orchestrators say.
func TestJaeger(t *testing.T) {
	jaeger := jaegertest.Start(t, filepath.Join("..", "..", "bin", "jaeger"), os.Getenv("JAEGER_UI"))
	d := startForest(t, jaeger)
	arrivals := proctest.OpenLines(t, d.in("arrivals"))
	c := d.client()
	session := c.bypassing("Survey the wood.")
	for range foresters {
		arrivals.Next()
	}
	jaeger.Until("all that was said so far", worker, func(traces []jaegertest.Trace) bool {
		input, output := used(named(all(traces), "chat"))
		return c.hasUsed(session, input, output)
	})
	killed := fmt.Sprintf("-%d-", d.processes[foresters[0]].Process.Pid) // is in its name
	d.kill(foresters[0])
	d.write("go", "")
	if root := c.wait(session, ""); root.GetResult() != "surveyed 2" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
	tasks := c.tasks(session)
	traces := jaeger.Until("all that the tree has used, and whatever hangs above what came", worker, func(traces []jaegertest.Trace) bool {
		input, output := used(named(all(traces), "chat"))
		return c.hasUsed(session, input, output) && len(named(all(traces), "invoke_agent ")) >= len(tasks) && len(orphans(all(traces), "")) == 0
	})
	checkStored(t, jaeger, traces)
	spans := traces[0].Spans
	checkTrace(t, c, session, spans, traces[0].ID, "")
	checkLost(t, c, session, spans, killed)
	if orchestrators, workers := len(instances(spans, replica)), len(instances(spans, worker)); orchestrators != len(d.addresses) || workers != len(foresters) {
		t.Errorf("%d orchestrators and %d workers have sent spans", orchestrators, workers)
	}
	logTrace(t, c, session, spans)
	lookAt(t, d, jaeger, session, traces[0])
}

// Those who send spans.
const (
	replica = "coppice-orchestrator"
	worker  = "coppice-worker"
)

func all(traces []jaegertest.Trace) []otlptest.Span {
	var spans []otlptest.Span
	for _, trace := range traces {
		spans = append(spans, trace.Spans...)
	}
	return spans
}

// checkStored looks whether Jaeger has this trace alone, whoever of us it is asked for,
// and shows all of it without a warning.
func checkStored(t *testing.T, jaeger *jaegertest.Server, traces []jaegertest.Trace) {
	t.Helper()
	if services := jaeger.Services(); len(services) != 2 || !slices.Contains(services, replica) || !slices.Contains(services, worker) {
		t.Errorf("spans came from %q", services)
	}
	if len(traces) != 1 {
		t.Fatalf("there are %d traces, want one", len(traces))
	}
	for _, service := range []string{replica, worker} {
		shown := jaeger.Traces(service, true)
		if len(shown) != 1 || shown[0].ID != traces[0].ID || len(shown[0].Spans) != len(traces[0].Spans) {
			t.Errorf("of %s Jaeger shows %d traces with %d spans, want one with %d", service, len(shown), len(all(shown)), len(traces[0].Spans))
		}
		for _, trace := range shown {
			if len(trace.Warnings) > 0 {
				t.Errorf("Jaeger warns of trace %s: %q", trace.ID, trace.Warnings)
			}
		}
	}
}

// checkLost looks for the attempts that were lost, and only those: each is a failed span
// below its run, and one of them was the killed worker's, whose run went on with
// another.
func checkLost(t *testing.T, c *client, session string, spans []otlptest.Span, killed string) {
	t.Helper()
	events, _ := c.idle(session)
	lost := named(spans, "attempt lost")
	if again := redelivered([]watched{{events: events}}); len(lost) != len(again) {
		t.Errorf("%d attempts were lost, %d runs were delivered again", len(lost), len(again))
	}
	found := 0
	for _, a := range lost {
		if !a.Failed || a.Message == "" || a.Numbers["coppice.epoch"] == 0 {
			t.Errorf("an attempt that was lost is %+v", a)
		}
		by := map[string]bool{} // who has called models for the run
		for _, s := range spans {
			if s.ID == a.Parent && (s.Texts["coppice.task.id"] != a.Texts["coppice.task.id"] || s.Texts["coppice.run.state"] != "completed") {
				t.Errorf("an attempt that was lost hangs below %+v", s)
			}
			if s.Parent == a.Parent && strings.HasPrefix(s.Name, "chat") {
				by[s.Texts["service.instance.id"]] = true
			}
		}
		if name := a.Texts["coppice.worker.id"]; strings.Contains(name, killed) {
			found++
			if len(by) != 2 || !by[name] {
				t.Errorf("for the run of %s, which was killed, models were called by %v", name, by)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d attempts were lost with the worker that was killed: %+v", found, lost)
	}
}

// instances gives the processes of a service that have sent spans.
func instances(spans []otlptest.Span, service string) map[string]bool {
	found := map[string]bool{}
	for _, s := range spans {
		if s.Service == service {
			found[s.Texts["service.instance.id"]] = true
		}
	}
	return found
}

// logTrace says what there was to look at.
func logTrace(t *testing.T, c *client, session string, spans []otlptest.Span) {
	t.Helper()
	counts, depth := map[string]int{}, int64(0)
	for _, s := range spans {
		counts[s.Name]++
		depth = max(depth, s.Numbers["coppice.task.depth"])
	}
	chats, runs := named(spans, "chat"), named(spans, "invoke_agent ")
	input, output := used(chats)
	t.Logf("one trace, %s, of %d spans with as many ids, from %d of 2 orchestrators and %d of %d workers",
		spans[0].Trace, len(spans), len(instances(spans, replica)), len(instances(spans, worker)), len(foresters))
	t.Logf("%d tasks, each with its span, down to depth %d; %d calls of the tool task, each between its caller's run and its child's",
		len(c.tasks(session)), depth, counts["execute_tool task"])
	t.Logf("the %d calls of models sum up to %d and %d tokens, as do the %d runs, as does the tree", len(chats), input, output, len(runs))
	for _, a := range named(spans, "attempt lost") {
		t.Logf("the attempt that %s was lost with is a failed span of its own, %s long", a.Texts["coppice.worker.id"], a.End.Sub(a.Start))
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d %s", counts[name], name)
	}
}

// lookAt draws the trace if COPPICE_TRACE_PICTURE names a file, and keeps everything
// running until Ctrl-C if COPPICE_JAEGER is "stay".
func lookAt(t *testing.T, d *deployment, jaeger *jaegertest.Server, session string, trace jaegertest.Trace) {
	t.Helper()
	picture := os.Getenv("COPPICE_TRACE_PICTURE")
	if picture != "" {
		if err := os.WriteFile(picture, jaegertest.Draw(trace.Spans), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("COPPICE_JAEGER") != "stay" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	page := jaeger.Page(trace.ID)
	if os.Getenv("JAEGER_UI") == "" {
		page = "this Jaeger has no pages; docs/observability.md says how it gets them"
	}
	fmt.Fprintf(os.Stderr, "\nThe trace in Jaeger:   %s\n", page)
	fmt.Fprintf(os.Stderr, "As JSON:               http://%s/api/traces/%s\n", jaeger.Addr(), trace.ID)
	fmt.Fprintf(os.Stderr, "As a picture:          file://%s\n", picture)
	fmt.Fprintf(os.Stderr, "The tree:              bin/coppice tree --orchestrator %s %s\n", d.addresses[0], session)
	fmt.Fprintf(os.Stderr, "Ctrl-C ends all of it.\n")
	<-ctx.Done()
}
