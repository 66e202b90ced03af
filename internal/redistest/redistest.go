// Package redistest runs private Redis servers for tests: on a free port, in a
// temporary directory, to be killed and restarted at will.
package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server. Its methods fail the test if they can't do what they
// say; they are not safe for concurrent use.
type Server struct {
	t    testing.TB
	addr string
	args []string
	cmd  *exec.Cmd // nil: not running
	log  sync.WaitGroup
}

// startPatience is how long a server may take to start, and startAttempts how
// often a port may turn out to be taken meanwhile.
const (
	startPatience = 20 * time.Second
	startAttempts = 5
)

// Start runs a server until the test ends. It keeps nothing over a restart unless
// args, which are redis-server's, say so: "--appendonly", "yes". A test that calls
// it fails where redis-server is not installed.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("this test needs redis-server: %v", err)
	}
	s := &Server{t: t, args: append([]string{"--save", "", "--bind", "127.0.0.1", "--dir", t.TempDir()}, args...)}
	t.Cleanup(s.stop)
	var err error
	for range startAttempts {
		s.addr = freeAddr(t)
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatalf("starting redis-server: %v", err)
	return nil
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("looking for a free port: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("freeing a port: %v", err)
	}
	return l.Addr().String()
}

// Addr is host:port. It stays over restarts.
func (s *Server) Addr() string { return s.addr }

// URL is what a program is given to find the server.
func (s *Server) URL() string { return "redis://" + s.addr }

// Client is a client that is closed when the test ends.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.addr, ContextTimeoutEnabled: true})
	s.t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			s.t.Errorf("closing a Redis client: %v", err)
		}
	})
	return client
}

// Kill ends the server as a crash would (SIGKILL) and waits until it is gone.
func (s *Server) Kill() {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatal("redis-server is not running")
	}
	s.stop()
}

// Restart starts a killed server on the same address.
func (s *Server) Restart() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatal("redis-server is still running")
	}
	if err := s.run(); err != nil {
		s.t.Fatalf("restarting redis-server: %v", err)
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
		s.t.Fatal("redis-server is not running")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("sending %s to redis-server: %v", sig, err)
	}
}

// run starts the process and waits until it takes connections.
func (s *Server) run() error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	if _, err := strconv.Atoi(port); err != nil {
		return err
	}
	cmd := exec.Command("redis-server", append([]string{"--port", port}, s.args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	ready := make(chan error, 1)
	s.log.Go(func() { watch(out, ready) })
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
func watch(out io.Reader, ready chan<- error) {
	var last string
	lines := bufio.NewScanner(out)
	for told := false; lines.Scan(); {
		last = lines.Text()
		if !told && strings.Contains(last, "Ready to accept connections") {
			ready <- nil
			told = true
		}
	}
	select {
	case ready <- errors.New("it ended: " + last):
	default:
	}
}

// stop kills the server if it runs, and waits.
func (s *Server) stop() {
	if s.cmd == nil {
		return
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Kill(); err != nil {
		s.t.Errorf("killing redis-server: %v", err)
	}
	s.log.Wait()
	var killed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &killed) {
		s.t.Errorf("waiting for redis-server: %v", err)
	}
}
