// Package pgtest runs private PostgreSQL servers for tests: on a free port, in a
// temporary directory, to be killed and restarted at will.
package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL server. Its methods fail the test if they can't do what
// they say; only Database is safe for concurrent use.
type Server struct {
	t         testing.TB
	binaries  string
	dir       string
	port      int
	as        *syscall.Credential // nil: whoever runs the test
	cmd       *exec.Cmd           // nil: not running
	log       sync.WaitGroup
	databases atomic.Int64
}

// startPatience is how long a server may take to start or to be gone, and
// startAttempts how often a port may turn out to be taken meanwhile.
const (
	startPatience = 60 * time.Second
	startAttempts = 5
)

// settings are those of all servers. What is committed survives a kill.
var settings = []string{
	"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300",
	"shared_buffers=32MB", "jit=off", "logging_collector=off", "log_min_messages=warning",
	"log_destination=stderr", "max_wal_size=512MB",
}

// Start runs a server until the test ends. Several tests may share one, each with
// a Database of its own. A test that calls it fails where PostgreSQL is not
// installed.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, binaries: binaries(t), as: owner(t)}
	dir, err := os.MkdirTemp("", "pgtest") //nolint:usetesting // whom the server runs as may not look into that of root
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	t.Cleanup(func() {
		s.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing a database: %v", err)
		}
	})
	if s.as != nil {
		if err := os.Chown(dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.command("initdb", "--pgdata", s.data(), "--auth=trust", "--username=postgres",
		"--encoding=UTF8", "--no-locale", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("making a database: %v\n%s", err, out)
	}
	for range startAttempts {
		s.port = freePort(t)
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatalf("starting postgres: %v", err)
	return nil
}

// binaries finds where PostgreSQL's programs are.
func binaries(t testing.TB) string {
	t.Helper()
	if found, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(found)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		t.Fatalf("this test needs PostgreSQL, which is neither in PATH nor in /usr/lib/postgresql (%v)", err)
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

// version is the number in the path of a binary.
func version(binary string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(binary))))
	if err != nil {
		return 0
	}
	return n
}

// owner is who the server runs as, since it refuses to run as root.
func owner(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("PostgreSQL refuses to run as root: %v", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("looking for a free port: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("freeing a port: %v", err)
	}
	return l.Addr().(*net.TCPAddr).Port
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.binaries, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// Addr is host:port. It stays over restarts.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL names the database that every server has.
func (s *Server) URL() string { return s.url("postgres") }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr(), database)
}

// Database makes a new, empty database and gives its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatalf("connecting to PostgreSQL: %v", err)
	}
	defer conn.Close(t.Context())
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("making a database: %v", err)
	}
	return s.url(name)
}

// Kill ends all processes of the server as a crash would (SIGKILL) and waits until
// they are gone.
func (s *Server) Kill() {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatal("postgres is not running")
	}
	s.stop()
}

// Restart starts a killed server on the same address.
func (s *Server) Restart() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatal("postgres is still running")
	}
	if err := s.run(); err != nil {
		s.t.Fatalf("restarting postgres: %v", err)
	}
}

// run starts the process and waits until it takes connections.
func (s *Server) run() error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	out, err := cmd.StderrPipe()
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
		if !told && strings.Contains(last, "ready to accept connections") {
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
		s.t.Errorf("stopping postgres: %v", err)
	}
	started := children(cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("killing postgres: %v", err)
	}
	for _, pid := range started {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Errorf("killing process %d of postgres: %v", pid, err)
		}
	}
	s.log.Wait() // all have closed their end of it
	var killed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &killed) {
		s.t.Errorf("waiting for postgres: %v", err)
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
