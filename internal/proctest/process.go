package proctest

import (
	"bufio"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a process may take to say something or to end; it only
// guards against hanging.
const patience = 60 * time.Second

// Gone waits until a process is no more than a name.
func Gone(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatalf("looking at process %d: %v", pid, err)
	}
	ended := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(ended, int(patience.Milliseconds()))
	}
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		t.Fatalf("waiting for process %d: %v", pid, err)
	}
	if n == 0 {
		t.Errorf("process %d goes on", pid)
	}
}

// Lines makes a named pipe and gives the lines that processes write to it.
type Lines struct {
	t     testing.TB
	name  string
	lines chan string
}

// OpenLines makes the pipe. Whoever writes to it does not wait for a reader.
func OpenLines(t testing.TB, name string) *Lines {
	t.Helper()
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	// Open for writing too, the pipe never ends.
	pipe, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &Lines{t: t, name: name, lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			l.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return l
}

// Next waits for the next line.
func (l *Lines) Next() string {
	l.t.Helper()
	select {
	case line := <-l.lines:
		return line
	case <-time.After(patience):
		l.t.Fatalf("nothing was written to %s", l.name)
		return ""
	}
}
