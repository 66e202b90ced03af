package telemetry

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-run/coppice/internal/tree"
)

// chosenIDs are the ids that a span must get.
type chosenIDs struct {
	trace tree.TraceID
	span  tree.SpanID
}

type chosenKey struct{}

// withIDs makes the next span that is started with the context use these ids.
func withIDs(ctx context.Context, traceID tree.TraceID, span tree.SpanID) context.Context {
	return context.WithValue(ctx, chosenKey{}, chosenIDs{traceID, span})
}

// idGenerator returns the chosen ids, or random ones.
type idGenerator struct{}

var _ sdktrace.IDGenerator = idGenerator{}

// NewIDs returns the ids of the first span of a trace.
func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, ok := ctx.Value(chosenKey{}).(chosenIDs); ok {
		return trace.TraceID(c.trace), spanBytes(c.span)
	}
	var id trace.TraceID
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id, idGenerator{}.NewSpanID(ctx, id)
}

// NewSpanID returns the id of a span with a parent.
func (idGenerator) NewSpanID(ctx context.Context, of trace.TraceID) trace.SpanID {
	if c, ok := ctx.Value(chosenKey{}).(chosenIDs); ok && trace.TraceID(c.trace) == of && c.span != 0 {
		return spanBytes(c.span)
	}
	return spanBytes(tree.SpanID(rand.Uint64() | 1))
}

func spanBytes(id tree.SpanID) (b trace.SpanID) {
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return b
}

// TraceFromContext returns the trace of a context, for the runs that the request starts. It is
// zero if there is none.
func TraceFromContext(ctx context.Context) tree.Trace {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return tree.Trace{}
	}
	span := sc.SpanID()
	return tree.Trace{
		ID: tree.TraceID(sc.TraceID()), Parent: tree.SpanID(binary.BigEndian.Uint64(span[:])),
		Flags: byte(sc.TraceFlags()) | tree.TraceGiven,
	}
}

// withParentSpan returns a context whose spans are children of a span of the run's trace. If
// span is 0, the next span is the first of the trace.
func (t *Telemetry) withParentSpan(ctx context.Context, of tree.Trace, span tree.SpanID) context.Context {
	flags := trace.TraceFlags(0)
	if t.isSampled(of) {
		flags = trace.FlagsSampled
	}
	if span == 0 {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(of.ID), SpanID: spanBytes(span), TraceFlags: flags, Remote: true,
	}))
}

// isSampled reports whether the spans of a trace are kept. All processes decide alike, so all
// spans of a trace are kept or none.
func (t *Telemetry) isSampled(of tree.Trace) bool {
	if of.Flags&tree.TraceGiven != 0 {
		return trace.TraceFlags(of.Flags).IsSampled()
	}
	return t.root.ShouldSample(sdktrace.SamplingParameters{
		ParentContext: context.Background(), TraceID: trace.TraceID(of.ID),
	}).Decision == sdktrace.RecordAndSample
}

// TraceParent returns the W3C traceparent header that makes spans children of a run. It is
// empty without telemetry or without a trace.
func (t *Telemetry) TraceParent(task *tree.Task) string {
	if t == nil || task.Trace.ID == (tree.TraceID{}) {
		return ""
	}
	flags := "00"
	if t.isSampled(task.Trace) {
		flags = "01"
	}
	return "00-" + trace.TraceID(task.Trace.ID).String() + "-" + spanBytes(tree.RunSpan(task.ID, task.Run)).String() + "-" + flags
}

// WithTraceParent returns a context whose spans are children of the span that a traceparent
// header names. Invalid headers are ignored, as the W3C specification requires.
func WithTraceParent(ctx context.Context, header string) context.Context {
	parts := strings.Split(header, "-")
	if len(parts) != 4 || parts[0] != "00" {
		return ctx
	}
	var c trace.SpanContextConfig
	var err [3]error
	c.TraceID, err[0] = trace.TraceIDFromHex(parts[1])
	c.SpanID, err[1] = trace.SpanIDFromHex(parts[2])
	flags, bad := hex.DecodeString(parts[3])
	if err[0] != nil || err[1] != nil || bad != nil || len(flags) != 1 {
		return ctx
	}
	c.TraceFlags, c.Remote = trace.TraceFlags(flags[0]), true
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(c))
}
