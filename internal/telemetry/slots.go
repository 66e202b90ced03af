package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// MeasureSlots registers the metric of a worker's slots. used returns how many slots have a
// run; it is called on each collection.
func (t *Telemetry) MeasureSlots(pool string, all int, used func() int) error {
	m := t.instruments()
	slots := m.gauge("coppice.slots", "{run}", "Slots of this worker, with and without a run.")
	if m.err != nil {
		return m.err
	}
	inUse := metric.WithAttributes(labelPool.String(pool), labelState.String("used"))
	free := metric.WithAttributes(labelPool.String(pool), labelState.String("free"))
	_, err := t.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n := used()
		o.ObserveInt64(slots, int64(n), inUse)
		o.ObserveInt64(slots, int64(max(0, all-n)), free)
		return nil
	}, slots)
	return err
}
