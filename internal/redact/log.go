package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a handler that redacts messages, attributes with their groups, and the texts
// of errors.
func (r *Redactor) Handler(next slog.Handler) slog.Handler {
	return &handler{next: next, redactor: r}
}

type handler struct {
	next     slog.Handler
	redactor *Redactor
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle logs a record without its secrets.
func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	if h.redactor.secrets() == nil {
		return h.next.Handle(ctx, record)
	}
	clean := slog.NewRecord(record.Time, record.Level, h.redactor.String(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attribute(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs redacts the attributes immediately. Secrets that are added later are not redacted
// in them.
func (h *handler) WithAttrs(attributes []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attributes))
	for i, a := range attributes {
		clean[i] = h.attribute(a)
	}
	return &handler{h.next.WithAttrs(clean), h.redactor}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(h.redactor.String(name)), h.redactor}
}

func (h *handler) attribute(a slog.Attr) slog.Attr {
	return slog.Attr{Key: h.redactor.String(a.Key), Value: h.value(a.Value.Resolve())}
}

func (h *handler) value(v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(h.redactor.String(v.String()))
	case slog.KindGroup:
		var clean []slog.Attr
		for _, a := range v.Group() {
			clean = append(clean, h.attribute(a))
		}
		return slog.GroupValue(clean...)
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindAny:
		return h.rendered(v)
	}
	return v
}

// rendered redacts a value in the form in which handlers write it.
func (h *handler) rendered(v slog.Value) slog.Value {
	text := fmt.Sprintf("%+v", v.Any())
	if h.redactor.Has(text) {
		return slog.StringValue(h.redactor.String(text))
	}
	if _, isError := v.Any().(error); isError || v.Kind() != slog.KindAny {
		return v
	}
	if bytes, ok := v.Any().([]byte); ok && h.redactor.Has(string(bytes)) {
		return slog.StringValue(h.redactor.String(string(bytes)))
	}
	if document, err := json.Marshal(v.Any()); err == nil && h.redactor.Has(string(document)) {
		return slog.StringValue(h.redactor.JSON(string(document)))
	}
	return v
}
