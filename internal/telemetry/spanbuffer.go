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

// spanBuffer stands before and behind a batcher of spans, which would drop in silence what it
// has no room for, and counts what is lost.
type spanBuffer struct {
	sdktrace.SpanProcessor // the batcher
	size                   int64
	report                 func(error) // that something was lost, once in lossAgain at most

	waiting atomic.Int64 // with the batcher, and not with the exporter yet
	dropped atomic.Int64 // spans for which there was no room
	failed  atomic.Int64 // spans that the exporter could not send

	mu         sync.Mutex
	reportedAt time.Time // when it was last told that there was no room
}

// reportEvery is how long it is not said again that spans are dropped.
const reportEvery = 10 * time.Second

// newSpanBuffer makes one with room for so many spans until they are sent.
func newSpanBuffer(exporter sdktrace.SpanExporter, room int, tell func(error)) *spanBuffer {
	o := &spanBuffer{size: int64(room), report: tell}
	o.SpanProcessor = sdktrace.NewBatchSpanProcessor(countingExporter{exporter, o}, sdktrace.WithMaxQueueSize(room), sdktrace.WithBatchTimeout(spanDelay))
	return o
}

// OnEnd gives a span to the batcher, which has room for as many as wait for it here.
func (o *spanBuffer) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return // it would be nothing to the batcher
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
		o.report(fmt.Errorf("spans are dropped, as %d wait to be sent; %d so far", o.size, lost))
	}
}

// countingExporter is what the batcher sends through.
type countingExporter struct {
	sdktrace.SpanExporter
	buffer *spanBuffer
}

// ExportSpans sends spans. What comes of an error the batcher tells.
func (e countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.buffer.waiting.Add(-int64(len(spans)))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.buffer.failed.Add(int64(len(spans)))
	}
	return err
}

// measure has what is lost counted; a nil outbox loses nothing.
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
