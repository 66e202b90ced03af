// Package proctest runs server processes for tests: on a free port, to be killed,
// frozen and restarted at will.
package proctest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Program is what a server runs.
type Program struct {
	Name    string
	Ready   string // is in the line that it logs when it takes connections
	Command func(port int) *exec.Cmd
}

// Server is a process that serves on a port. Its methods fail the test if they
// can't do what they say; they are not safe for concurrent use.
type Server struct {
	program Program
	t       testing.TB
	port    int
	cmd     *exec.Cmd // nil: not running
	log     sync.WaitGroup
}

// startPatience is how long a server may take to start.
const startPatience = 60 * time.Second

// Start runs a server until the test ends.
func Start(t testing.TB, p Program) *Server {
	t.Helper()
	s := &Server{program: p, t: t, port: holdPort(t)}
	t.Cleanup(s.stop)
	if err := s.run(); err != nil {
		t.Fatalf("starting %s: %v", s.program.Name, err)
	}
	return s
}

// Addr is host:port. It stays over restarts.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Kill ends the server and all processes that it has started as a crash would
// (SIGKILL), and waits until they are gone.
func (s *Server) Kill() {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatalf("%s is not running", s.program.Name)
	}
	s.stop()
}

// Restart starts a killed server on the same address.
func (s *Server) Restart() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatalf("%s is still running", s.program.Name)
	}
	if err := s.run(); err != nil {
		s.t.Fatalf("restarting %s: %v", s.program.Name, err)
	}
}

// Freeze stops the server in its tracks (SIGSTOP): connections stay open and
// nothing is answered until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatalf("%s is not running", s.program.Name)
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("sending %s to %s: %v", sig, s.program.Name, err)
	}
}

// run starts the process and waits until it takes connections.
func (s *Server) run() error {
	cmd := s.program.Command(s.port)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	ready := make(chan error, 1)
	s.log.Go(func() { watch(out, s.program.Ready, ready) })
	select {
	case err = <-ready:
	case <-time.After(startPatience):
		err = errors.New("it does not get ready")
	}
	if err != nil {
		s.stop()
	}
	return err
}

// watch reads the server's log to its end, and says once that it is ready, or
// what its last words were.
func watch(out io.Reader, sign string, ready chan<- error) {
	var last string
	lines := bufio.NewScanner(out)
	for told := false; lines.Scan(); {
		last = lines.Text()
		if !told && strings.Contains(last, sign) {
			ready <- nil
			told = true
		}
	}
	select {
	case ready <- errors.New("it ended: " + last):
	default:
	}
}

// stop kills the server if it runs: its first process, which is stopped before so
// that it starts no other, and those that this one has started.
func (s *Server) stop() {
	if s.cmd == nil {
		return
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("stopping %s: %v", s.program.Name, err)
	}
	// The signal may arrive in the middle of a fork, so it is waited for.
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		s.t.Errorf("waiting for %s to stop: %v", s.program.Name, err)
	}
	started := children(cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("killing %s: %v", s.program.Name, err)
	}
	for _, pid := range started {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Errorf("killing process %d of %s: %v", pid, s.program.Name, err)
		}
	}
	s.log.Wait() // all have closed their end of it
	var killed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &killed) {
		s.t.Errorf("waiting for %s: %v", s.program.Name, err)
	}
}

// children finds the processes that a process has started.
func children(of int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var found []int
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		pid, parent := 0, 0
		// The name of the program is in parentheses and may hold anything.
		rest := stat[strings.LastIndexByte(string(stat), ')')+1:]
		if _, err := fmt.Sscanf(string(rest), " %1s %d", new(string), &parent); err != nil || parent != of {
			continue
		}
		if _, err := fmt.Sscan(string(stat), &pid); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
