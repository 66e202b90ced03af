package harness

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/bench/system"
)

// running starts a system that is a script, which says "{}" when it is ready.
func running(t *testing.T, script string, args ...string) *instance {
	t.Helper()
	e := entry{name: "script", program: "sh", args: append([]string{"-c", script, "sh"}, args...)}
	i, err := launch(t.Context(), e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.exec("/bin", e); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := i.ask(t.Context(), system.Request{Verb: system.VerbStart}); err != nil {
		t.Fatal(err)
	}
	return i
}

// TestNothingIsLeftBehind: the process of the system has crashed, and what it has started would
// run on.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	i := running(t, `mktemp -d >temporary; sleep 600 >child 2>&1 & echo $! >pid; echo '{}'; kill -9 $$`)
	var left []string
	for _, file := range []string{"temporary", "pid"} {
		text, err := os.ReadFile(filepath.Join(i.setup.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, strings.TrimSpace(string(text)))
	}
	if err := i.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left[0]); !os.IsNotExist(err) {
		t.Errorf("the directory %s is still there: %v", left[0], err)
	}
	pid, err := strconv.Atoi(left[1])
	if err != nil {
		t.Fatal(err)
	}
	// Where nobody waits for orphans, it remains as a zombie.
	for began := time.Now(); syscall.Kill(pid, 0) == nil && !zombie(pid); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("the process %d is still there", pid)
		}
	}
}

func zombie(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(line), ") Z ")
}

// TestEndInterruptsARequest: a system that is busy when the measurement is interrupted can still
// stop what it has started.
func TestEndInterruptsARequest(t *testing.T) {
	t.Parallel()
	stopped := filepath.Join(t.TempDir(), "stopped")
	i := running(t, `trap 'echo >"$1"; exit' TERM; sleep 600 >child 2>&1 & echo '{}'; wait`, stopped)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.ask(interrupted, system.Request{Verb: system.VerbFanOut, N: 1}); err == nil {
		t.Fatal("it has answered")
	}
	if err := i.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stopped); err != nil {
		t.Errorf("it was killed before it could stop: %v", err)
	}
}
