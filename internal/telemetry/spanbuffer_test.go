package telemetry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// slow sends spans when it is let, and fails if it is told to.
type slow struct {
	let  chan error
	sent int
}

func (s *slow) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := <-s.let
	if err == nil {
		s.sent += len(spans)
	}
	return err
}

func (*slow) Shutdown(context.Context) error { return nil }

// TestLostSpans: each span is sent or counted as lost, and that there are such is said, but
// not for each.
func TestLostSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const room = 4
		var told []string
		exporter := &slow{let: make(chan error)}
		box := newSpanBuffer(exporter, room, func(err error) { told = append(told, err.Error()) })
		reader := sdkmetric.NewManualReader()
		if err := box.measure(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")); err != nil {
			t.Fatal(err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(box), sdktrace.WithSampler(sdktrace.AlwaysSample()))
		end := func(n int) {
			for range n {
				_, span := provider.Tracer("test").Start(t.Context(), "span")
				span.End()
			}
		}
		check := func(what string, full, refused, says int) {
			t.Helper()
			lost := dropped(t, reader)
			if lost["queue full"] != int64(full) || lost["not taken"] != int64(refused) || len(told) != says {
				t.Errorf("%s: lost are %v, told was %q", what, lost, told)
			}
		}
		end(room)
		check("as many as there is room for", 0, 0, 0)
		end(3)
		check("more", 3, 0, 1)
		time.Sleep(spanDelay) // until they go
		synctest.Wait()
		end(room + 1)
		check("while they go there is room again", 4, 0, 1)
		exporter.let <- nil
		time.Sleep(spanDelay)
		exporter.let <- errors.New("nobody listens")
		synctest.Wait()
		check("the next are not taken", 4, room, 1)
		time.Sleep(reportEvery)
		end(room + 1)
		check("later it is said again", 5, room, 2)
		close(exporter.let)
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if exporter.sent != 2*room || !strings.Contains(told[1], "5 dropped so far") {
			t.Errorf("%d were sent, and told was %q", exporter.sent, told)
		}
	})
}

// dropped gives what is measured as lost.
func dropped(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	lost := map[string]int64{}
	for _, p := range all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		reason, _ := p.Attributes.Value(labelReason)
		lost[reason.AsString()] = p.Value
	}
	return lost
}
