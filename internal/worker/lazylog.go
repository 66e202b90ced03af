package worker

import (
	"context"
	"log/slog"
	"sync"
)

// late is a handler whose attributes are put together once something is logged: most
// attempts log nothing.
type lazyHandler struct {
	logger     *slog.Logger
	attributes func() []any

	once     sync.Once
	resolved slog.Handler
}

// later gives a logger with attributes.
func lazyLogger(to *slog.Logger, attributes func() []any) *slog.Logger {
	return slog.New(&lazyHandler{logger: to, attributes: attributes})
}

func (h *lazyHandler) handler() slog.Handler {
	h.once.Do(func() { h.resolved = h.logger.With(h.attributes()...).Handler() })
	return h.resolved
}

// Enabled does not depend on attributes.
func (h *lazyHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.logger.Enabled(ctx, level)
}

func (h *lazyHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.handler().Handle(ctx, r)
}

func (h *lazyHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.handler().WithAttrs(attrs) }

func (h *lazyHandler) WithGroup(name string) slog.Handler { return h.handler().WithGroup(name) }
