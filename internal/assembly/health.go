package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coppice-run/coppice/internal/api"
	"github.com/coppice-run/coppice/internal/firstbyte"
)

// orchestratorService is the health service that reports whether an orchestrator accepts the
// worker. The empty service reports that the process is alive.
const orchestratorService = "orchestrator"

// newWorkerHealth returns the health server of a worker without an orchestrator, and a function to
// set whether an orchestrator is reached.
func newWorkerHealth() (of *health.Server, reached func(bool)) {
	of = health.NewServer()
	reached = func(has bool) {
		now := healthpb.HealthCheckResponse_NOT_SERVING
		if has {
			now = healthpb.HealthCheckResponse_SERVING
		}
		of.SetServingStatus(orchestratorService, now)
	}
	reached(false)
	return of, reached
}

// ListenHealth listens for health checks. An empty address returns no listener.
func ListenHealth(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for health checks: %w", err)
	}
	return l, nil
}

// CheckHealth is the argument with which a program checks the health of another process of its
// kind, for images that contain no other client.
const CheckHealth = "check-health"

// checkTimeout bounds a health check.
const checkTimeout = 5 * time.Second

// AnswerHealthCheck handles the argument [CheckHealth]: it checks the process that was started
// with the same environment, and exits with 0 if that is healthy and 1 if not. With other
// arguments it returns.
func AnswerHealthCheck(args []string) {
	if len(args) != 1 || args[0] != CheckHealth {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := askHealth(ctx, os.Getenv("COPPICE_HEALTH_LISTEN")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func askHealth(ctx context.Context, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("COPPICE_HEALTH_LISTEN: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	conn, err := Connect(net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("asking for its health: %w", err)
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("its health is %s", resp.GetStatus())
	}
	return nil
}

// serveHealth answers health checks, and nothing else, until stop is called. stop waits. Clients
// need neither TLS nor a token, because process supervisors have none.
func serveHealth(ctx context.Context, l net.Listener, of healthpb.HealthServer, log *slog.Logger) (stop func()) {
	if l == nil {
		return func() {}
	}
	server := grpc.NewServer(grpc.ConnectionTimeout(api.HandshakeTimeout))
	healthpb.RegisterHealthServer(server, of)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(firstbyte.Listener(l)); err != nil {
			log.ErrorContext(ctx, "the health server failed", "error", err)
		}
	}()
	return func() {
		server.Stop()
		<-done
	}
}
