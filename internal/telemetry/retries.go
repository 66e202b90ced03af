package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/coppice-run/coppice/internal/model"
)

// RetryMetrics measures what delays requests to providers. It implements retry.Observer.
type RetryMetrics struct {
	names  *modelNames
	failed metric.Int64Counter
	waited metric.Float64Histogram

	failureLabels *labelCache[[3]string]
	waitLabels    *labelCache[[3]string]
}

// RetryMetrics creates the metrics of requests to providers.
func (t *Telemetry) RetryMetrics() (*RetryMetrics, error) {
	m := t.instruments()
	of := func(third attribute.Key) *labelCache[[3]string] {
		return newLabelCache(func(k [3]string) []attribute.KeyValue {
			return []attribute.KeyValue{labelProvider.String(k[0]), labelModel.String(k[1]), third.String(k[2])}
		})
	}
	return &RetryMetrics{
		names:         t.names,
		failed:        m.counter("coppice.provider.failures", "{try}", "Tries that a provider has refused or failed, by kind."),
		waited:        m.histogram("coppice.provider.wait", "How long a request waited for its turn below the provider's rate limit, or after a failure."),
		failureLabels: of(labelKind), waitLabels: of(labelReason),
	}, m.err
}

// Tried counts a failed try. A success makes the model name a label.
func (t *RetryMetrics) Tried(provider, name string, kind model.ErrorKind, failed bool) {
	if !failed {
		t.names.learn(name)
		return
	}
	t.failed.Add(context.Background(), 1, t.failureLabels.get([3]string{providerName(provider), t.names.label(name), kind.String()}).add...)
}

// Queued records how long a request waited for the rate limit.
func (t *RetryMetrics) Queued(provider, name string, took time.Duration) {
	t.wait(provider, name, "turn", took)
}

// Paused records how long a request paused after a failure.
func (t *RetryMetrics) Paused(provider, name string, took time.Duration) {
	t.wait(provider, name, "failure", took)
}

func (t *RetryMetrics) wait(provider, name, reason string, took time.Duration) {
	t.waited.Record(context.Background(), took.Seconds(), t.waitLabels.get([3]string{providerName(provider), t.names.label(name), reason}).record...)
}
