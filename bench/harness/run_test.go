package harness

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestInterruptedSamplesAreWritten: what was measured before Ctrl-C is in the table, and in the
// file.
func TestInterruptedSamplesAreWritten(t *testing.T) {
	t.Parallel()
	busy := filepath.Join(t.TempDir(), "busy")
	if err := syscall.Mkfifo(busy, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `read start; echo '{}'; read first; echo '{}'; read spawn; echo >"$1"; exec sleep 600`
	var written strings.Builder
	c := Config{Binaries: "/bin", Rounds: 2, Log: slog.New(slog.DiscardHandler), Samples: &written}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		defer interrupt()
		if _, err := os.ReadFile(busy); err != nil { // it waits until the script writes
			t.Error(err)
		}
	}()
	samples, err := c.rounds(ctx, []entry{{name: "script", program: "sh", args: []string{"-c", script, "sh", busy}}}, nil)
	if !errors.Is(err, context.Canceled) || len(samples) != 1 || samples[0].Workload != Cold {
		t.Fatalf("measured were %+v, %v", samples, err)
	}
	if !strings.Contains(written.String(), `"workload":"cold"`) {
		t.Errorf("written were %q", written.String())
	}
}
