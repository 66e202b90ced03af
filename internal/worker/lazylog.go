package worker

import (
	"context"
	"log/slog"
	"sync"
)

// lazyHandler is a log handler that computes its attributes when something is logged first. Most
// attempts log nothing.
type lazyHandler struct {
	logger     *slog.Logger
	attributes func() []any

	once     sync.Once
	resolved slog.Handler
}

// lazyLogger returns a logger whose attributes are computed on first use.
func lazyLogger(to *slog.Logger, attributes func() []any) *slog.Logger {
	return slog.New(&lazyHandler{logger: to, attributes: attributes})
}

func (h *lazyHandler) handler() slog.Handler {
	h.once.Do(func() { h.resolved = h.logger.With(h.attributes()...).Handler() })
	return h.resolved
}

// Enabled does not depend on the attributes.
func (h *lazyHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.logger.Enabled(ctx, level)
}

func (h *lazyHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.handler().Handle(ctx, r)
}

func (h *lazyHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.handler().WithAttrs(attrs) }

func (h *lazyHandler) WithGroup(name string) slog.Handler { return h.handler().WithGroup(name) }
