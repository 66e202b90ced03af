package assembly_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAMistakeNamesItsFlag: whoever starts a process with a value that can't be is told which
// flag has it.
func TestAMistakeNamesItsFlag(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ program, flag, value string }{
		{"worker", "--workspace", missing}, {"worker", "--workspaces", missing}, {"worker", "--slots", "0"},
		{"orchestrator", "--listen", "nonsense"}, {"orchestrator", "--listen", ""},
	} {
		out, err := exec.Command(filepath.Join(bin, c.program), c.flag, c.value).CombinedOutput()
		if err == nil || !strings.Contains(string(out), `"error":"`+c.flag) {
			t.Errorf("%s %s %s: %v: %s", c.program, c.flag, c.value, err, out)
		}
	}
}

// TestWhatOpenTelemetrySaysIsLogged as everything else is, and not printed as it comes: it quotes
// its variables, and logs are read by machines.
func TestWhatOpenTelemetrySaysIsLogged(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	const key = "the-key-of-a-backend"
	ends := exec.Command(filepath.Join(bin, "orchestrator"), "--listen", "127.0.0.1:0", "--database", filepath.Join(missing, "coppice.db"))
	ends.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CERTIFICATE="+missing,
		"OTEL_EXPORTER_OTLP_TIMEOUT="+key, "BACKEND_KEY="+key)
	out, err := ends.CombinedOutput()
	if err == nil || !strings.Contains(string(out), missing+": no such file") || strings.Contains(string(out), key) {
		t.Errorf("it ended with %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}
