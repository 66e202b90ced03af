package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments creates instruments and collects the errors.
type instruments struct {
	meter metric.Meter
	err   error
}

func (t *Telemetry) instruments() *instruments { return &instruments{meter: t.Meter} }

// seconds returns histogram buckets for durations from milliseconds to half an hour.
func seconds() metric.Float64HistogramOption {
	return metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800)
}

func (m *instruments) histogram(name, about string) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), seconds())
	m.err = errors.Join(m.err, err)
	return h
}

func (m *instruments) sizes(name, unit, about string) metric.Int64Histogram {
	h, err := m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
	m.err = errors.Join(m.err, err)
	return h
}

func (m *instruments) counter(name, unit, about string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *instruments) amount(name, unit, about string) metric.Float64Counter {
	c, err := m.meter.Float64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *instruments) gauge(name, unit, about string) metric.Int64ObservableGauge {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.err = errors.Join(m.err, err)
	return g
}

func (m *instruments) seconds(name, about string) metric.Float64ObservableGauge {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(about))
	m.err = errors.Join(m.err, err)
	return g
}
