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
	Logger *slog.Logger
	page   *http.Server
}

// How long the header of a request for metrics may take to arrive, and how long Close may take to
// send the last spans, metrics and logs.
const (
	headerTimeout = 5 * time.Second
	flushTimeout  = 3 * time.Second
)

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
	m := &Instruments{Telemetry: t, Logger: slog.New(secrets.Handler(t.LogHandler(logs)))}
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
	m.page = &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	go func() {
		if err := m.page.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			m.Logger.ErrorContext(ctx, "the metrics server failed", "error", err)
		}
	}()
	m.Logger.InfoContext(ctx, "serving metrics", "listen", l.Addr().String())
	return m, nil
}

// Close sends what has not been sent yet.
func (m *Instruments) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if m.page != nil {
		if err := m.page.Shutdown(ctx); err != nil {
			m.Logger.Warn("closing the metrics server failed", "error", err)
		}
	}
	if err := m.Telemetry.Close(ctx); err != nil {
		m.Logger.Warn("some telemetry data is lost", "error", err)
	}
}
