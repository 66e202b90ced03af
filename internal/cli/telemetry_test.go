package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/proctest"
)

const talk = `steps: [{text: fine}]`

// coppice prepares the program, which sends what it measures to a sink.
func coppice(t *testing.T, sink *otlptest.Sink, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("coppice")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	scenario := filepath.Join(dir, "talk.yaml")
	if err := os.WriteFile(scenario, []byte(talk), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(args, "--scenario", scenario, "--workspace", dir)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.Endpoint())
	return cmd
}

// TestARunIsTraced: what a short run has measured is sent before it ends.
func TestARunIsTraced(t *testing.T) {
	t.Parallel()
	sink := otlptest.Start(t)
	cmd := coppice(t, sink, "run", "-q", "hello")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "fine" {
		t.Fatalf("%v: %s", err, out)
	}
	checkSent(t, sink)
}

// checkSent looks at what has come by now.
func checkSent(t *testing.T, sink *otlptest.Sink) {
	t.Helper()
	var names []string
	for _, span := range sink.Until("anything", func([]otlptest.Span) bool { return true }) {
		names = append(names, span.Name)
		if span.Service != "coppice" {
			t.Errorf("span %q is of the service %q", span.Name, span.Service)
		}
	}
	for _, want := range []string{"invoke_agent general-purpose", "queued", "chat"} {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, want) }) {
			t.Errorf("there is no span %q in %q", want, names)
		}
	}
	metrics := sink.Metrics()
	for _, want := range []string{"coppice.run.duration", "coppice.slots", "gen_ai.client.operation.duration"} {
		if !metrics[want] {
			t.Errorf("there is no %s in %v", want, metrics)
		}
	}
}

// TestARunDoesNotNeedWhereItSends: the answer is there, and a word about what was lost,
// when nobody takes what was measured.
func TestARunDoesNotNeedWhereItSends(t *testing.T) {
	t.Parallel()
	sink := otlptest.Start(t)
	cmd := coppice(t, sink, "run", "-q", "hello")
	nobody := proctest.FreeAddress(t)
	cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+nobody)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || strings.TrimSpace(stdout.String()) != "fine" {
		t.Fatalf("%v: %s", err, &stdout)
	}
	last := stderr.String()[max(0, strings.LastIndex(stderr.String(), "some telemetry data is lost")):]
	if strings.Count(last, "connection refused") != 1 || !strings.Contains(last, nobody) || strings.Contains(last, "deadline") {
		t.Errorf("it does not say once why: %s", &stderr)
	}
}

// TestDevServesItsMetrics: the page has both what orchestrators and what workers
// measure, and what is left is sent at the end.
func TestDevServesItsMetrics(t *testing.T) {
	t.Parallel()
	sink, address := otlptest.Start(t), proctest.FreeAddress(t)
	dev := coppice(t, sink, "dev", "--json", "--listen", "127.0.0.1:0", "--metrics-listen", address)
	dev.Stderr = t.Output()
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ Listen string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(dev.Path, "run", "-q", "--orchestrator", ready.Listen, "hello")
	if said, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\ncoppice_work{", "\ncoppice_slots{", "\ngen_ai_client_token_usage_sum{"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("not on the page: %s\n%s", want, page)
		}
	}
	if err := dev.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := dev.Wait(); err != nil {
		t.Fatal(err)
	}
	checkSent(t, sink)
}
