package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"

	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/telemetry"
)

// Instruments is the telemetry and the logger of a process.
type Instruments struct {
	*telemetry.Telemetry
	Logger   *slog.Logger
	stopPage func()
}

// flushTimeout is how long Close may take to send the last spans, metrics and logs.
const flushTimeout = 3 * time.Second

// Measure sets up the telemetry of the process from the OTEL_… variables. If listen is not empty
// it also serves metrics for Prometheus there. Logs, including those of Redis clients, also go to
// the handler. Secrets are removed from everything. Call it once in a process.
func Measure(ctx context.Context, service, listen string, logs slog.Handler, secrets *redact.Redactor) (*Instruments, error) {
	// Export errors are only logged locally, because exporting them would fail too. What OpenTelemetry
	// says of its variables when it is set up goes there as well, since it quotes them.
	here := slog.New(secrets.Handler(logs))
	otel.SetLogger(logr.FromSlogHandler(here.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		here.WarnContext(ctx, "some telemetry data is lost", "error", err)
	}))
	t, err := telemetry.Open(ctx, telemetry.Config{
		Service: service, Instance: processName(), Getenv: os.Getenv, Prometheus: listen != "", Clean: secrets.String,
	})
	if err != nil {
		return nil, err
	}
	m := &Instruments{Telemetry: t, Logger: slog.New(secrets.Handler(t.LogHandler(logs))), stopPage: func() {}}
	redis.SetLogger(newRedisLog(m.Logger))
	if listen == "" {
		return m, nil
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serving metrics: %w", err), t.Close(ctx))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Page)
	m.stopPage = servePage(ctx, "metrics", l, mux, m.Logger)
	return m, nil
}

// Close closes the page of metrics, and sends what has not been sent yet.
func (m *Instruments) Close() {
	m.stopPage()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := m.Telemetry.Close(ctx); err != nil {
		m.Logger.Warn("some telemetry data is lost", "error", err)
	}
}
