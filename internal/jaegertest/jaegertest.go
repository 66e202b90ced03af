// Package jaegertest runs private Jaegers for tests, asks them for the traces that they
// were sent, and draws one.
package jaegertest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/coppice-run/coppice/internal/proctest"
)

// Server is a Jaeger that keeps what it is sent in memory.
type Server struct {
	*proctest.Server

	t    testing.TB
	otlp string
}

// Start runs a Jaeger, whose program make builds, until the test ends. pages is the
// directory of its web pages; empty: it has none, and answers requests of its API alone.
func Start(t testing.TB, program, pages string) *Server {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("this test needs Jaeger, which make test-jaeger builds: %v", err)
	}
	s := &Server{t: t}
	s.Server = proctest.Start(t, proctest.Program{
		Name: "Jaeger", Ready: `"status":"ready"`,
		Command: func(port int) *exec.Cmd {
			s.otlp = proctest.FreeAddress(t)
			args := []string{
				"--query.http-server.host-port", fmt.Sprintf("127.0.0.1:%d", port),
				"--collector.otlp.grpc.host-port", s.otlp,
				"--query.enable-tracing=false",
				"--query.max-clock-skew-adjustment", "0s", // all processes have one clock
			}
			for _, unused := range []string{"collector.otlp.http", "collector.grpc-server", "collector.http-server", "query.grpc-server", "admin.http"} {
				args = append(args, "--"+unused+".host-port", proctest.FreeAddress(t))
			}
			if pages != "" {
				args = append(args, "--query.static-files", pages)
			}
			cmd := exec.Command(program, args...)
			cmd.Env = append(os.Environ(), "SPAN_STORAGE_TYPE=memory")
			return cmd
		},
	})
	return s
}

// Endpoint is what OTEL_EXPORTER_OTLP_ENDPOINT has to be.
func (s *Server) Endpoint() string { return "http://" + s.otlp }

// Page is where Jaeger's pages show a trace.
func (s *Server) Page(trace string) string { return "http://" + s.Addr() + "/trace/" + trace }
