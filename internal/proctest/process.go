package proctest

import (
	"bufio"
	"errors"
	"io"
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

// Held is a named pipe that processes keep open, to see when the last of them is gone,
// in whatever namespace it is.
type Held struct {
	t    testing.TB
	pipe *os.File
}

// OpenHeld makes the pipe.
func OpenHeld(t testing.TB, name string) *Held {
	t.Helper()
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Held{t, pipe}
}

// Gone waits until nobody has the pipe open for writing any more. Somebody must have
// had it open.
func (h *Held) Gone() {
	h.t.Helper()
	if err := h.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		h.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, h.pipe); err != nil {
		h.t.Errorf("who has %s open goes on: %v", h.pipe.Name(), err)
	}
}
