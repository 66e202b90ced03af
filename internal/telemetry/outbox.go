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

// outbox stands before and behind a batcher of spans, which would drop in silence what it
// has no room for, and counts what is lost.
type outbox struct {
	sdktrace.SpanProcessor // the batcher
	room                   int64
	tell                   func(error) // that something was lost, once in lossAgain at most

	waiting atomic.Int64 // with the batcher, and not with the exporter yet
	full    atomic.Int64 // spans for which there was no room
	refused atomic.Int64 // spans that the exporter could not send

	mu   sync.Mutex
	told time.Time // when it was last told that there was no room
}

// lossAgain is how long it is not said again that spans are dropped.
const lossAgain = 10 * time.Second

// newOutbox makes one with room for so many spans until they are sent.
func newOutbox(exporter sdktrace.SpanExporter, room int, tell func(error)) *outbox {
	o := &outbox{room: int64(room), tell: tell}
	o.SpanProcessor = sdktrace.NewBatchSpanProcessor(outlet{exporter, o}, sdktrace.WithMaxQueueSize(room), sdktrace.WithBatchTimeout(spanDelay))
	return o
}

// OnEnd gives a span to the batcher, which has room for as many as wait for it here.
func (o *outbox) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return // it would be nothing to the batcher
	}
	if o.waiting.Add(1) <= o.room {
		o.SpanProcessor.OnEnd(s)
		return
	}
	o.waiting.Add(-1)
	lost := o.full.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.told.IsZero() || now.Sub(o.told) >= lossAgain {
		o.told = now
		o.tell(fmt.Errorf("spans are dropped, as %d wait to be sent; %d so far", o.room, lost))
	}
}

// outlet is what the batcher sends through.
type outlet struct {
	sdktrace.SpanExporter
	box *outbox
}

// ExportSpans sends spans. What comes of an error the batcher tells.
func (e outlet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.box.waiting.Add(-int64(len(spans)))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.box.refused.Add(int64(len(spans)))
	}
	return err
}

// measure has what is lost counted; a nil outbox loses nothing.
func (o *outbox) measure(meter metric.Meter) error {
	lost, err := meter.Int64ObservableCounter("coppice.spans.dropped", metric.WithUnit("{span}"),
		metric.WithDescription("Spans that were not sent: for want of room, or since nobody took them."))
	if err != nil {
		return err
	}
	full, refused := metric.WithAttributes(labelReason.String("queue full")), metric.WithAttributes(labelReason.String("not taken"))
	_, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		var noRoom, notTaken int64
		if o != nil {
			noRoom, notTaken = o.full.Load(), o.refused.Load()
		}
		to.ObserveInt64(lost, noRoom, full)
		to.ObserveInt64(lost, notTaken, refused)
		return nil
	}, lost)
	return err
}
