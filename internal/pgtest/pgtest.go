// Package pgtest runs private PostgreSQL servers for tests.
package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/internal/proctest"
)

// Server is a PostgreSQL server. Only Database and Copy are safe for concurrent use.
type Server struct {
	*proctest.Server

	t         testing.TB
	binaries  string
	dir       string
	as        *syscall.Credential // nil: whoever runs the test
	databases atomic.Int64
}

// settings are those of all servers. What is committed survives a kill.
var settings = []string{
	"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300",
	"shared_buffers=32MB", "jit=off", "logging_collector=off", "log_min_messages=warning",
	"log_destination=stderr", "max_wal_size=512MB",
}

// Start runs a server until the test ends. Several tests may share one, each with
// a Database of its own. A test that calls it fails where PostgreSQL is not
// installed, and is skipped with -short.
func Start(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("PostgreSQL is left out with -short")
	}
	s := &Server{t: t, binaries: binaries(t), as: owner(t)}
	dir, err := os.MkdirTemp("", "pgtest") //nolint:usetesting // whom the server runs as may not look into that of root
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing a database: %v", err)
		}
	})
	if s.as != nil {
		if err := os.Chown(dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.initialise(); err != nil {
		t.Fatalf("making a database: %v", err)
	}
	s.Server = proctest.Start(t, proctest.Program{
		Name: "postgres", Ready: "ready to accept connections",
		Command: func(port int) *exec.Cmd {
			return s.command("postgres", append(arguments(s.data(), port), durable(t)...)...)
		},
	})
	return s
}

func arguments(data string, port int) []string {
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// durable says what survives the end of the machine: nothing has to in a test, and what is measured
// is measured with all of it.
func durable(t testing.TB) []string {
	if _, measured := t.(*testing.B); measured {
		return nil
	}
	return []string{"-c", "fsync=off"}
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

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.binaries, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// URL names the database that every server has.
func (s *Server) URL() string { return s.url("postgres") }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr(), database)
}

// Database makes a new, empty database and gives its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.database(t, "template1")
}

// Copy makes a new database that is like one that nobody is connected to, and gives its URL.
func (s *Server) Copy(t testing.TB, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return s.database(t, config.Database)
}

func (s *Server) database(t testing.TB, template string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatalf("connecting to PostgreSQL: %v", err)
	}
	defer conn.Close(t.Context())
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatalf("making a database: %v", err)
	}
	return s.url(name)
}
