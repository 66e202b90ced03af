package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
	awaitEnd(t, pid)
}

// awaitEnd waits until a process has ended, also one whose end nobody has waited for.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only waited on
	poll := func() (int, error) { return unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000) }
	ended, err := poll()
	for errors.Is(err, unix.EINTR) {
		ended, err = poll()
	}
	if err != nil || ended == 0 {
		t.Errorf("the process %d is still there (%v)", pid, err)
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
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
