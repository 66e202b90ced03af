package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// survivors are commands that leave processes behind, or never end. Each says "up"
// when what it wants to leave is there.
var survivors = map[string]string{
	"hang":        `sleep $MARK & echo up; wait`,
	"hang deaf":   `trap '' HUP INT TERM; sleep $MARK & echo up; wait; while :; do sleep 1; done`,
	"background":  `sleep $MARK & disown; echo up`,
	"nohup":       `nohup sleep $MARK >/dev/null 2>&1 & echo up`,
	"session":     `setsid -f sleep $MARK >/dev/null 2>&1; echo up`,
	"double fork": `( ( sleep $MARK >/dev/null 2>&1 & ) & ); echo up`,
	"daemon":      `perl -MPOSIX -e 'pipe R, W; if (fork) { close W; readline R; exit } POSIX::setsid(); fork and exit; chdir "/"; open STDIN, "/dev/null"; open STDOUT, ">/dev/null"; open STDERR, ">/dev/null"; print W "x"; exec "sleep", $ENV{MARK}'; echo up`,
	"crowd":       `for i in 1 2 3 4; do setsid -f sleep $MARK >/dev/null 2>&1; done; echo up`,
	"stopped":     `setsid sleep $MARK >/dev/null 2>&1 & until grep -qs sleep /proc/$!/comm; do :; done; kill -STOP $!; echo up`,
	"again":       `setsid -f bash -c 'trap "" TERM; while :; do sleep $MARK; done' >/dev/null 2>&1; echo up; sleep $MARK`,
}

// ends are ways in which a command may end.
var ends = []string{"by itself", "by its context", "killed"}

// workerKinds are workers that start commands: who they are, how they make
// namespaces, and how many commands they start.
var workerKinds = []struct {
	uid   uint32
	by    way
	mode  Mode
	count int
}{
	{0, wayNative, Required, 400},
	{nobodyID, wayNative, Required, 200},
	{nobodyID, wayBubblewrap, Required, 200},
	{0, wayNone, BestEffort, 100},
	{nobodyID, wayNone, Off, 100},
}

const surviveVariable = "COPPICE_TEST_SURVIVE"

func onlyWay(by way) []way {
	switch by {
	case wayNone:
		return []way{}
	case wayNative:
		return []way{wayNative}
	}
	return nil // what is found
}

// workerFrom makes the sandbox that a variable asks for, and says what else it asks.
func workerFrom(t *testing.T, variable string) (box *Sandbox, rest []string) {
	t.Helper()
	fields := strings.Split(os.Getenv(variable), ",")
	box, err := New(Config{Mode: Mode(fields[0]), ways: onlyWay(way(fields[1]))})
	if err != nil {
		t.Fatal(err)
	}
	if box.way != way(fields[1]) {
		t.Fatalf("namespaces are made by %q, not %q", box.way, fields[1])
	}
	return box, fields[2:]
}

// TestNothingSurvives starts commands that hang and commands that daemonise.
func TestNothingSurvives(t *testing.T) {
	t.Parallel()
	var total atomic.Int64
	t.Cleanup(func() { t.Logf("%d hanging or daemonising commands, 0 survivors", total.Load()) })
	for _, k := range workerKinds {
		t.Run(fmt.Sprintf("%d %s %s", k.uid, k.mode, k.by), func(t *testing.T) {
			t.Parallel()
			needUser(t, k.uid)
			out, err := asUser(t, k.uid, "^TestNothingSurvivesInWorker$", fmt.Sprintf("%s=%s,%s,%d", surviveVariable, k.mode, k.by, k.count)).CombinedOutput()
			if err != nil || !bytes.Contains(out, fmt.Appendf(nil, "%d commands, 0 survivors", k.count)) {
				t.Fatalf("%v\n%s", err, out)
			}
			total.Add(int64(k.count))
		})
	}
}

func needUser(t *testing.T, uid uint32) {
	t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "" && int(uid) != os.Getuid() {
		t.Skip("it takes root to be another user")
	}
}

// TestNothingSurvivesInWorker is the worker of TestNothingSurvives.
func TestNothingSurvivesInWorker(t *testing.T) {
	if os.Getenv(surviveVariable) == "" {
		t.Log("it is for a process of its own, which TestNothingSurvives starts")
		return
	}
	box, rest := workerFrom(t, surviveVariable)
	count, err := strconv.Atoi(rest[0])
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(survivors))
	for name, script := range survivors {
		names = append(names, name)
		if !survivesOutside(t, script) {
			t.Errorf("%s leaves nothing outside of the sandbox either, so it proves nothing", name)
		}
	}
	var left atomic.Int64
	var g errgroup.Group
	g.SetLimit(4)
	for i := range count {
		g.Go(func() error {
			name, end := names[i%len(names)], ends[i%len(ends)]
			n, err := survive(t, box, markerOf(i), survivors[name], end)
			if err != nil {
				return fmt.Errorf("%s, ended %s: %w", name, end, err)
			}
			if n > 0 {
				t.Errorf("%s, ended %s: %d survivors", name, end, n)
			}
			left.Add(int64(n))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%d commands, %d survivors\n", count, left.Load())
}

// markerOf is a time to sleep that tells whose process it is.
func markerOf(i int) string { return fmt.Sprintf("8%d%06d", os.Getpid(), i) }

func survivesOutside(t *testing.T, script string) bool {
	t.Helper()
	marker := markerOf(999999)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up := &signalled{up: make(chan struct{})}
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Env, cmd.Stdout, cmd.WaitDelay = append(os.Environ(), "MARK="+marker), up, 10*time.Millisecond
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-up.up
	cancel()
	_ = cmd.Wait()
	looking, over := context.WithTimeout(t.Context(), 10*time.Second)
	defer over()
	survived := appears(looking, marker)
	endMarked(marker)
	return survived
}

// endMarked ends what a command left outside of the sandbox.
func endMarked(marker string) {
	for left := marked(marker); len(left) > 0; left = marked(marker) {
		for _, pid := range left {
			syscall.Kill(parentToKill(pid), syscall.SIGKILL)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// parentToKill is the shell that would start a killed process again, or the process
// itself.
func parentToKill(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return pid
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	parent, err := strconv.Atoi(string(fields[1]))
	if name, readErr := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", parent)); err != nil || readErr != nil || !bytes.HasPrefix(name, []byte("bash\x00-c\x00trap")) {
		return pid
	}
	return parent
}

// signalled closes a channel at the first output.
type signalled struct {
	once sync.Once
	up   chan struct{}
}

func (s *signalled) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.up) })
	return len(p), nil
}

// survive runs one command, ends it, and counts what is left the moment Wait returns.
func survive(t *testing.T, box *Sandbox, marker, script, end string) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
	defer cancel()
	up := &signalled{up: make(chan struct{})}
	dir := t.TempDir()
	p, err := box.Start(ctx, Command{Argv: []string{"bash", "-c", script}, Dir: dir, Env: []string{"MARK=" + marker}, Stdout: up})
	if err != nil {
		return 0, err
	}
	select {
	case <-up.up:
	case <-ctx.Done():
		return 0, errors.Join(errors.New("it did not begin"), p.Wait())
	}
	switch {
	case end == "by its context":
		cancel()
	case end == "killed", strings.Contains(script, "wait"), strings.HasSuffix(script, "sleep $MARK"):
		err = p.Kill()
	}
	var exit *exec.ExitError
	if waitErr := p.Wait(); waitErr != nil && !errors.As(waitErr, &exit) && !errors.Is(waitErr, context.Canceled) {
		err = errors.Join(err, waitErr)
	}
	return len(marked(marker)), err
}
