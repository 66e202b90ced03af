package worker

import (
	"context"
	"log/slog"
	"sync"
)

// late is a handler whose attributes are put together once something is logged: most
// attempts log nothing.
type late struct {
	to         *slog.Logger
	attributes func() []any

	once sync.Once
	made slog.Handler
}

// later gives a logger with attributes.
func later(to *slog.Logger, attributes func() []any) *slog.Logger {
	return slog.New(&late{to: to, attributes: attributes})
}

func (h *late) handler() slog.Handler {
	h.once.Do(func() { h.made = h.to.With(h.attributes()...).Handler() })
	return h.made
}

// Enabled does not depend on attributes.
func (h *late) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *late) Handle(ctx context.Context, r slog.Record) error { return h.handler().Handle(ctx, r) }

func (h *late) WithAttrs(attrs []slog.Attr) slog.Handler { return h.handler().WithAttrs(attrs) }

func (h *late) WithGroup(name string) slog.Handler { return h.handler().WithGroup(name) }
