package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Config configures telemetry. The OTEL_… variables configure exporters, resource and sampling.
// Without an endpoint nothing is sent.
type Config struct {
	Service    string // service name, unless OTEL_SERVICE_NAME is set
	Instance   string // the instance of the service
	Getenv     func(string) string
	Clean      func(string) string // removes secrets from the texts of spans; optional
	Prometheus bool                // also serve the metrics as a page
}

// Telemetry has the destinations of spans, metrics and logs.
type Telemetry struct {
	Tracer trace.Tracer
	Meter  metric.Meter
	// Page serves the metrics for Prometheus. It is nil unless Config.Prometheus is set.
	Page http.Handler
	// Instance identifies this instance of the service.
	Instance string

	names          *modelNames // of models
	root           sdktrace.Sampler
	traces         bool        // spans are exported
	spans          *spanBuffer // nil: spans are not exported
	metrics        bool        // metrics are exported or served
	captureContent bool
	clean          func(string) string
	logs           *sdklog.LoggerProvider
	sendErrors     sendErrors
	stops          []func(context.Context) error
}

// Size of the span buffer, and the longest time before its spans are sent.
const (
	spanBufferSize = 1 << 15
	spanDelay      = time.Second
)

// Open creates the configured exporters. Close sends what they have buffered.
func Open(ctx context.Context, c Config) (*Telemetry, error) {
	t := &Telemetry{Instance: c.Instance, names: newModelNames(), captureContent: isTrue(c.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"))}
	if t.clean = c.Clean; t.clean == nil {
		t.clean = func(text string) string { return text }
	}
	var err error
	t.root, err = sampler(c.Getenv)
	if err = errors.Join(err, checkExporters(c.Getenv)); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(c.Service), semconv.ServiceInstanceID(c.Instance)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("telemetry: describing the service: %w", err)
	}
	if err := errors.Join(t.openTraces(ctx, c, res), t.openMetrics(ctx, c, res), t.openLogs(ctx, c, res)); err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: %w", err), t.Close(ctx))
	}
	return t, nil
}

// Enabled reports whether spans or metrics are exported.
func (t *Telemetry) Enabled() bool { return t != nil && (t.traces || t.metrics) }

// Close sends what is buffered, within the limits of ctx.
func (t *Telemetry) Close(ctx context.Context) error {
	var all []error
	for _, stop := range t.stops {
		all = append(all, t.sendErrors.explain(stop(ctx)))
	}
	return joinDistinct(all)
}

// openTraces creates the tracer, with an exporter if one is configured.
func (t *Telemetry) openTraces(ctx context.Context, c Config, res *resource.Resource) error {
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(res), sdktrace.WithIDGenerator(idGenerator{}), sdktrace.WithSampler(sdktrace.ParentBased(t.root)),
	}
	if t.traces = isExported(c.Getenv, "TRACES"); t.traces {
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithDialOption(t.sendErrors.dialOption()))
		if err != nil {
			return fmt.Errorf("sending spans: %w", err)
		}
		t.spans = newSpanBuffer(exporter, spanBufferSize, otel.Handle)
		options = append(options, sdktrace.WithSpanProcessor(t.spans))
	} else {
		options[2] = sdktrace.WithSampler(sdktrace.NeverSample())
	}
	provider := sdktrace.NewTracerProvider(options...)
	t.stops = append(t.stops, provider.Shutdown)
	t.Tracer = provider.Tracer(Scope)
	return nil
}

func (t *Telemetry) openMetrics(ctx context.Context, c Config, res *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(res)}
	if isExported(c.Getenv, "METRICS") {
		exporter, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithDialOption(t.sendErrors.dialOption()))
		if err != nil {
			return fmt.Errorf("sending metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	if c.Prometheus {
		reader, page, err := newPage()
		if err != nil {
			return err
		}
		t.Page = page
		options = append(options, sdkmetric.WithReader(reader))
	}
	t.metrics = len(options) > 1
	provider := sdkmetric.NewMeterProvider(options...)
	t.stops = append(t.stops, provider.Shutdown)
	t.Meter = provider.Meter(Scope)
	return t.spans.measure(t.Meter)
}

func (t *Telemetry) openLogs(ctx context.Context, c Config, res *resource.Resource) error {
	if !isExported(c.Getenv, "LOGS") {
		return nil
	}
	exporter, err := otlploggrpc.New(ctx, otlploggrpc.WithDialOption(t.sendErrors.dialOption()))
	if err != nil {
		return fmt.Errorf("sending logs: %w", err)
	}
	t.logs = sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
	t.stops = append(t.stops, t.logs.Shutdown)
	return nil
}

// LogHandler wraps a handler so that records get the ids of their trace and are exported, if an
// exporter is configured.
func (t *Telemetry) LogHandler(local slog.Handler) slog.Handler {
	h := slog.Handler(traceHandler{local})
	if t.logs != nil {
		h = slog.NewMultiHandler(h, infoHandler{otelslog.NewHandler(Scope, otelslog.WithLoggerProvider(t.logs))})
	}
	return h
}

// infoHandler drops records below the level info.
type infoHandler struct{ slog.Handler }

// Enabled reports whether the level is at least info.
func (h infoHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && h.Handler.Enabled(ctx, level)
}

// WithAttrs keeps the level filter.
func (h infoHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return infoHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the level filter.
func (h infoHandler) WithGroup(name string) slog.Handler {
	return infoHandler{h.Handler.WithGroup(name)}
}

// traceHandler adds the ids of the context's span to log records.
type traceHandler struct{ slog.Handler }

// Handle adds the ids.
func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps adding the ids.
func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps adding the ids, inside the group.
func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}

// isExported reports whether a signal is exported: an endpoint is set, and the export is not
// disabled.
func isExported(getenv func(string) string, signal string) bool {
	if isTrue(getenv("OTEL_SDK_DISABLED")) || getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

func isTrue(text string) bool {
	yes, err := strconv.ParseBool(text)
	return err == nil && yes
}

// sampler returns the sampler for traces that start here.
func sampler(getenv func(string) string) (sdktrace.Sampler, error) {
	switch name := getenv("OTEL_TRACES_SAMPLER"); name {
	case "", "always_on", "parentbased_always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off", "parentbased_always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio", "parentbased_traceidratio":
		ratio, err := strconv.ParseFloat(getenv("OTEL_TRACES_SAMPLER_ARG"), 64)
		if inRange := ratio >= 0 && ratio <= 1; err != nil || !inRange { // NaN is not in range
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q, must be from 0 to 1", getenv("OTEL_TRACES_SAMPLER_ARG"))
		}
		return sdktrace.TraceIDRatioBased(ratio), nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q, which is not known", name)
	}
}

// newPage returns a metrics reader and the page that serves it for Prometheus.
func newPage() (sdkmetric.Reader, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := otelprom.New(otelprom.WithRegisterer(registry))
	if err != nil {
		return nil, nil, fmt.Errorf("metrics as a page: %w", err)
	}
	return reader, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
