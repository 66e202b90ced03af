// Package redistest runs private Redis servers for tests.
package redistest

import (
	"errors"
	"os/exec"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/proctest"
)

// Server is a redis-server.
type Server struct {
	*proctest.Server

	t testing.TB
}

// Start runs a server until the test ends. It keeps nothing over a restart unless
// args, which are redis-server's, say so: "--appendonly", "yes". A test that calls
// it fails where redis-server is not installed.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("this test needs redis-server: %v", err)
	}
	args = append([]string{"--save", "", "--bind", "127.0.0.1", "--dir", t.TempDir()}, args...)
	return &Server{t: t, Server: proctest.Start(t, proctest.Program{
		Name: "redis-server", Ready: "Ready to accept connections",
		Command: func(port int) *exec.Cmd {
			return exec.Command("redis-server", append([]string{"--port", strconv.Itoa(port)}, args...)...)
		},
	})}
}

// URL is what a program is given to find the server.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client is a client that is closed when the test ends.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true})
	s.t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			s.t.Errorf("closing a Redis client: %v", err)
		}
	})
	return client
}
