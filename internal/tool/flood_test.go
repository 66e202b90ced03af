package tool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// floodBudget is what an endless output may cost in memory, and floodFile what it may
// take in the workspace.
const (
	floodBudget = 8 << 20
	floodFile   = 32 << 20
)

// TestFlood lets a command write as fast as it can. COPPICE_TEST_FLOOD says for how
// long; a second already writes a thousand times what may be kept.
// It is not parallel: it measures the memory of the whole process.
func TestFlood(t *testing.T) {
	span := time.Second
	if text := os.Getenv("COPPICE_TEST_FLOOD"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	workspace, err := OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer workspace.Close()
	shell := aBash(t)
	before := memory()
	ended := make(chan Outcome, 1)
	go func() {
		ended <- shell.Call(context.Background(), Call{
			Input:     fmt.Appendf(nil, `{"command":"yes an endless output","timeout":%d}`, span.Milliseconds()),
			Workspace: workspace, Label: "flood",
		})
	}()
	peak, tick := uint64(0), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	var outcome Outcome
	for outcome == nil {
		select {
		case outcome = <-ended:
		case <-tick.C:
		}
		peak = max(peak, memory())
	}
	done := outcome.(Done)
	if !done.IsError || !strings.HasPrefix(done.Text, "an endless output\n") || !strings.Contains(done.Text, "[timeout: ") ||
		len(done.Text) > 30_000 || !utf8.ValidString(done.Text) {
		t.Errorf("the result has %d bytes: %.100q…", len(done.Text), done.Text)
	}
	info, err := os.Stat(filepath.Join(dir, OutputDir, "flood.txt"))
	if err != nil || info.Size() != floodFile {
		t.Errorf("the file is %v, %v", info, err)
	}
	if cost := max(peak, before) - before; cost > floodBudget {
		t.Errorf("an endless output cost %d bytes of memory", cost)
	} else {
		t.Logf("yes for %s: %d KiB of memory", span, cost>>10)
	}
}

// memory is what the process has of the system for its heap and stacks.
func memory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
