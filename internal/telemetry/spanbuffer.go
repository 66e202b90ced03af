package telemetry

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spanBuffer wraps the span batcher of the SDK, which drops spans silently when its queue is
// full, and counts the lost spans.
type spanBuffer struct {
	sdktrace.SpanProcessor // the batcher
	size                   int64
	report                 func(error) // reports dropped spans, at most once per reportEvery

	waiting atomic.Int64 // in the queue of the batcher, not yet with the exporter
	dropped atomic.Int64 // spans that found the queue full
	failed  atomic.Int64 // spans that the exporter could not send

	mu         sync.Mutex
	reportedAt time.Time // when a full queue was last reported
}

// reportEvery is the minimum interval between reports of dropped spans.
const reportEvery = 10 * time.Second

// newSpanBuffer returns a buffer for size spans.
func newSpanBuffer(exporter sdktrace.SpanExporter, room int, tell func(error)) *spanBuffer {
	o := &spanBuffer{size: int64(room), report: tell}
	o.SpanProcessor = sdktrace.NewBatchSpanProcessor(countingExporter{exporter, o}, sdktrace.WithMaxQueueSize(room), sdktrace.WithBatchTimeout(spanDelay))
	return o
}

// OnEnd passes a span to the batcher, or drops it if size spans are waiting. So the batcher's
// own queue never overflows.
func (o *spanBuffer) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return // the batcher would ignore it
	}
	if o.waiting.Add(1) <= o.size {
		o.SpanProcessor.OnEnd(s)
		return
	}
	o.waiting.Add(-1)
	lost := o.dropped.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.reportedAt.IsZero() || now.Sub(o.reportedAt) >= reportEvery {
		o.reportedAt = now
		o.report(fmt.Errorf("spans are dropped because %d are waiting to be sent; %d dropped so far", o.size, lost))
	}
}

// countingExporter sends the spans of the batcher and counts failures.
type countingExporter struct {
	sdktrace.SpanExporter
	buffer *spanBuffer
}

// ExportSpans sends spans. The batcher reports the error.
func (e countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.buffer.waiting.Add(-int64(len(spans)))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.buffer.failed.Add(int64(len(spans)))
	}
	return err
}

// measure registers the metric of lost spans. A nil buffer loses none.
func (o *spanBuffer) measure(meter metric.Meter) error {
	lost, err := meter.Int64ObservableCounter("coppice.spans.dropped", metric.WithUnit("{span}"),
		metric.WithDescription("Spans that were not sent: for want of room, or since nobody took them."))
	if err != nil {
		return err
	}
	full, refused := metric.WithAttributes(labelReason.String("queue full")), metric.WithAttributes(labelReason.String("not taken"))
	_, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		var noRoom, notTaken int64
		if o != nil {
			noRoom, notTaken = o.dropped.Load(), o.failed.Load()
		}
		to.ObserveInt64(lost, noRoom, full)
		to.ObserveInt64(lost, notTaken, refused)
		return nil
	}, lost)
	return err
}
