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

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"

	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/telemetry"
)

// Measuring is a process that measures itself.
type Instruments struct {
	*telemetry.Telemetry
	Logger *slog.Logger
	page   *http.Server
}

// How long a request for the page of metrics may take to arrive, and how long the
// last spans, metrics and logs may take to be sent.
const (
	headerTimeout = 5 * time.Second
	flushTimeout  = 3 * time.Second
)

// Measure makes a process measure itself, as OTEL_… variables say, and serves its
// metrics as a page if there is an address for it. What is logged goes to the handler
// too, with what its Redis clients say; secrets go nowhere. There is one such process in a
// process.
func Measure(ctx context.Context, service, listen string, logs slog.Handler, secrets *redact.Redactor) (*Instruments, error) {
	t, err := telemetry.Open(ctx, telemetry.Config{
		Service: service, Instance: processName(), Getenv: os.Getenv, Prometheus: listen != "", Clean: secrets.String,
	})
	if err != nil {
		return nil, err
	}
	// What can't be sent is told here alone: it would be one more thing to send.
	here := slog.New(secrets.Handler(logs))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		here.WarnContext(ctx, "some of what was measured is lost", "error", err)
	}))
	m := &Instruments{Telemetry: t, Logger: slog.New(secrets.Handler(t.Logs(logs)))}
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
			m.Logger.ErrorContext(ctx, "the page of metrics is served no more", "error", err)
		}
	}()
	m.Logger.InfoContext(ctx, "serving metrics", "listen", l.Addr().String())
	return m, nil
}

// Close sends what is left.
func (m *Instruments) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if m.page != nil {
		if err := m.page.Shutdown(ctx); err != nil {
			m.Logger.Warn("the page of metrics did not close", "error", err)
		}
	}
	if err := m.Telemetry.Close(ctx); err != nil {
		m.Logger.Warn("some of what was measured is lost", "error", err)
	}
}
