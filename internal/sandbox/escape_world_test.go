package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// planted is the variable of the worker's environment that no command may see.
const planted = "COPPICE_TEST_KEY"

// inheritedFile is an open file that the worker was given and did not ask for.
const inheritedFile = 77

// world is what surrounds a command: a workspace, and what it has to stay away from.
type world struct {
	t         *testing.T
	secret    string // content of all files outside of the workspace, and of the variable
	listeners *listeners
	victim    *exec.Cmd
	terminal  string   // where the worker's user types
	shared    string   // memory that processes of the worker's user share
	box       *Sandbox // with limits that let everything run
	tight     *Sandbox // with low limits
	rows      int
}

func newWorld(t *testing.T, by way) *world {
	t.Helper()
	w := &world{t: t, secret: os.Getenv(planted), listeners: listen(t), terminal: openTerminal(t)}
	w.shared = shareMemory(t, w.secret)
	mode := Required
	if by == wayNone {
		mode = BestEffort
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wide := Limits{AddressSpace: 1 << 60, Memory: 1 << 60}
	tight := Limits{
		Processes: 40, OpenFiles: 64, FileBytes: 1 << 20, CPU: time.Second, Scratch: 1 << 20,
		AddressSpace: 256 << 20, Memory: 64 << 20,
	}
	for box, limits := range map[**Sandbox]Limits{&w.box: wide, &w.tight: tight} {
		if *box, err = New(Config{Mode: mode, Readable: []string{exe}, Limits: limits, ways: onlyWay(by)}); err != nil {
			t.Fatal(err)
		}
	}
	w.victim = exec.Command("sleep", "1000")
	w.victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := w.victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.victim.Process.Kill(); w.victim.Wait() })
	return w
}

// openTerminal opens a terminal, for as long as the test takes.
func openTerminal(t *testing.T) string {
	t.Helper()
	made, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { made.Close() })
	number, err := unix.IoctlGetInt(int(made.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(made.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "/dev/pts/" + strconv.Itoa(number)
}

// shareMemory makes a file in memory, for as long as the test takes.
func shareMemory(t *testing.T, content string) string {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "coppice-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// stage is the world of one attempt.
type stage struct {
	work, out, other string
	marker           string // in the arguments of processes that are meant to stay
	before           string
}

func (w *world) stage(t *testing.T) *stage {
	t.Helper()
	w.rows++
	dir := t.TempDir()
	s := &stage{work: filepath.Join(dir, "work"), out: filepath.Join(dir, "out"), other: filepath.Join(dir, "other")}
	for _, d := range []string{s.work, filepath.Join(s.out, "dir"), s.other} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(s.out, "secret"), filepath.Join(s.other, "notes"), filepath.Join(s.out, "dir", w.secret)} {
		if err := os.WriteFile(f, []byte(w.secret+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Seconds that nobody else sleeps.
	s.marker = "9" + strconv.FormatUint(uint64(os.Getpid()), 10) + fmt.Sprintf("%06d", w.rows)
	s.before = snapshot(t, s.out, s.other)
	return s
}

// snapshot is all that can be told of directories.
func snapshot(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				fmt.Fprintf(&b, "%s: %v\n", path, err)
				return nil
			}
			var stat unix.Stat_t
			if err := unix.Lstat(path, &stat); err != nil {
				return err
			}
			var content []byte
			if d.Type().IsRegular() {
				if content, err = os.ReadFile(path); err != nil {
					return err
				}
			}
			fmt.Fprintf(&b, "%s %o %d:%d links %d at %d: %q\n", path, stat.Mode, stat.Uid, stat.Gid, stat.Nlink, stat.Mtim.Nano(), content)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func (w *world) environ(s *stage) []string {
	exe, _ := os.Executable()
	l := w.listeners
	return []string{
		"WORK=" + s.work, "OUT=" + s.out, "OTHER=" + s.other, "SECRET_FILE=" + s.out + "/secret", "MARK=" + s.marker,
		"WORKER=" + strconv.Itoa(os.Getpid()), "VICTIM=" + strconv.Itoa(w.victim.Process.Pid), "PROBE=" + exe + " " + probeMarker,
		"TCP=" + l.port("tcp4"), "TCP6=" + l.port("tcp6"), "UDP=" + l.port("udp4"),
		"TERMINAL=" + w.terminal, "SHARED=" + w.shared,
		"SOCKET=" + l.path, "SOCKET_DGRAM=" + l.pathDgram, "ABSTRACT=" + l.abstract, "ABSTRACT_DGRAM=" + l.abstractDgram,
	}
}

// attemptTime is how long one attempt may take before it has failed.
const attemptTime = 5 * time.Minute

// confined runs a script in the sandbox and says how it escaped; empty: not at all.
func (w *world) confined(t *testing.T, e escape) (how, output string) {
	t.Helper()
	s := w.stage(t)
	var out bytes.Buffer
	box := w.box
	if e.tight {
		box = w.tight
	}
	ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
	defer cancel()
	p, err := box.Start(ctx, Command{
		Argv: []string{"bash", "-c", e.script}, Dir: s.work, Env: w.environ(s), Network: e.network, Stdout: &out, Stderr: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Errorf("it hung: %s", out.String())
	}
	return w.escaped(t, s, out.String()), out.String()
}

// free runs the same script outside of the sandbox.
func (w *world) free(t *testing.T, e escape) (how, output string) {
	t.Helper()
	s := w.stage(t)
	ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", e.script)
	cmd.Dir, cmd.Env = s.work, append(os.Environ(), w.environ(s)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 100 * time.Millisecond // what it leaves has the pipe open
	out, _ := cmd.CombinedOutput()
	if strings.HasPrefix(e.name, "stay ") {
		appears(ctx, s.marker)
	}
	return w.escaped(t, s, string(out)), string(out)
}

func (w *world) escaped(t *testing.T, s *stage, output string) string {
	t.Helper()
	heard, left := w.listeners.heard(t), marked(s.marker)
	endMarked(s.marker)
	switch {
	case len(left) > 0:
		return "a process is left"
	case strings.Contains(output, w.secret):
		return "it knows the secret"
	case strings.Contains(output, "ESCAPED"):
		return "it says so"
	case snapshot(t, s.out, s.other) != s.before:
		return "what is outside has changed"
	case heard:
		return "it was heard outside"
	}
	return ""
}

// marked are the processes of the machine with the marker among their arguments.
func marked(marker string) []int {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && bytes.Contains(text, []byte("\x00"+marker+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}

// appears looks until there is such a process: one that has just been made still has the
// arguments of the one that made it, and nobody tells when that is over.
func appears(ctx context.Context, marker string) bool {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for len(marked(marker)) == 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// listeners are services of the machine.
type listeners struct {
	path, pathDgram         string
	abstract, abstractDgram string
	addrs                   map[string]net.Addr
	reached, own            atomic.Int64
	flushed                 chan struct{}
}

func listen(t *testing.T) *listeners {
	t.Helper()
	name := "coppice-test-" + rand.Text()
	l := &listeners{
		path: filepath.Join(t.TempDir(), "socket"), pathDgram: filepath.Join(t.TempDir(), "socket"), abstract: name + "-stream", abstractDgram: name + "-dgram",
		addrs: map[string]net.Addr{}, flushed: make(chan struct{}),
	}
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": l.path, "unix ": "@" + l.abstract} {
		ln, err := net.Listen(strings.TrimSpace(network), address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		l.addrs[network] = ln.Addr()
		go l.accept(ln)
	}
	for network, address := range map[string]string{"udp4": "127.0.0.1:0", "unixgram": "@" + l.abstractDgram, "unixgram ": l.pathDgram} {
		conn, err := net.ListenPacket(strings.TrimSpace(network), address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		l.addrs[network] = conn.LocalAddr()
		go l.receive(conn)
	}
	return l
}

const flush = "flush"

func (l *listeners) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		l.reached.Add(1)
		go func() {
			defer conn.Close()
			if text, _ := io.ReadAll(conn); string(text) == flush {
				l.flushed <- struct{}{}
			}
		}()
	}
}

func (l *listeners) receive(conn net.PacketConn) {
	buf := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		l.reached.Add(1)
		if string(buf[:n]) == flush {
			l.flushed <- struct{}{}
		}
	}
}

// heard says whether anybody but this function has reached a listener since it was
// called last. What it sends itself comes behind all that was sent before.
func (l *listeners) heard(t *testing.T) bool {
	t.Helper()
	for network, addr := range l.addrs {
		conn, err := net.Dial(strings.TrimSpace(network), addr.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, flush); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		<-l.flushed
		l.own.Add(1)
	}
	others := l.reached.Load() - l.own.Load()
	l.own.Add(others)
	return others > 0
}

func (l *listeners) port(network string) string {
	_, port, _ := net.SplitHostPort(l.addrs[network].String())
	return port
}
