// Package otlptest is a backend of OpenTelemetry for tests: it takes spans and metrics
// over the wire and keeps them.
package otlptest

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Span is a span as it came.
type Span struct {
	Trace, ID, Parent string
	Name              string
	Service           string
	Failed            bool
	Message           string // why it has failed
	Start, End        time.Time
	Texts             map[string]string
	Numbers           map[string]int64
}

// Sink keeps what it is sent. Its methods may be called at once.
type Sink struct {
	t    testing.TB
	addr string

	mu      sync.Mutex
	spans   []Span
	metrics map[string]bool
	logs    int
	grown   chan struct{} // closed when there is more
}

// patience is how long spans may take to come; it only guards against hanging.
const patience = 60 * time.Second

// Start serves until the test ends.
func Start(t testing.TB) *Sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sink{t: t, addr: l.Addr().String(), metrics: map[string]bool{}, grown: make(chan struct{})}
	server := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(server, traces{Sink: s})
	colmetrics.RegisterMetricsServiceServer(server, metrics{Sink: s})
	collogs.RegisterLogsServiceServer(server, logs{Sink: s})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// Endpoint is what OTEL_EXPORTER_OTLP_ENDPOINT has to be.
func (s *Sink) Endpoint() string { return "http://" + s.addr }

// Until waits until what has come is enough, and gives it.
func (s *Sink) Until(what string, enough func([]Span) bool) []Span {
	s.t.Helper()
	late := time.After(patience)
	for {
		s.mu.Lock()
		spans, grown := append([]Span(nil), s.spans...), s.grown
		s.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-grown:
		case <-late:
			s.t.Fatalf("of %d spans: not yet %s", len(spans), what)
			return nil
		}
	}
}

// Metrics gives the names of the metrics that came.
func (s *Sink) Metrics() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for name := range s.metrics {
		out[name] = true
	}
	return out
}

// Logs says how many records of logs came.
func (s *Sink) Logs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs
}

func (s *Sink) grow(add func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add()
	close(s.grown)
	s.grown = make(chan struct{})
}

type traces struct {
	coltrace.UnimplementedTraceServiceServer
	*Sink
}

// Export takes spans.
func (s traces) Export(_ context.Context, req *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	s.grow(func() {
		for _, r := range req.GetResourceSpans() {
			texts, _ := values(r.GetResource().GetAttributes())
			for _, scope := range r.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					s.spans = append(s.spans, read(span, texts["service.name"]))
				}
			}
		}
	})
	return &coltrace.ExportTraceServiceResponse{}, nil
}

func read(span *trace.Span, service string) Span {
	texts, numbers := values(span.GetAttributes())
	return Span{
		Trace: hex.EncodeToString(span.GetTraceId()), ID: hex.EncodeToString(span.GetSpanId()), Parent: hex.EncodeToString(span.GetParentSpanId()),
		Name: span.GetName(), Service: service, Failed: span.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR, Message: span.GetStatus().GetMessage(),
		Start: time.Unix(0, int64(span.GetStartTimeUnixNano())), End: time.Unix(0, int64(span.GetEndTimeUnixNano())),
		Texts: texts, Numbers: numbers,
	}
}

func values(attrs []*common.KeyValue) (texts map[string]string, numbers map[string]int64) {
	texts, numbers = map[string]string{}, map[string]int64{}
	for _, a := range attrs {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			texts[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			numbers[a.GetKey()] = v.IntValue
		}
	}
	return texts, numbers
}

type metrics struct {
	colmetrics.UnimplementedMetricsServiceServer
	*Sink
}

// Export takes metrics.
func (s metrics) Export(_ context.Context, req *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	s.grow(func() {
		for _, r := range req.GetResourceMetrics() {
			for _, scope := range r.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					s.metrics[m.GetName()] = true
				}
			}
		}
	})
	return &colmetrics.ExportMetricsServiceResponse{}, nil
}

type logs struct {
	collogs.UnimplementedLogsServiceServer
	*Sink
}

// Export takes logs.
func (s logs) Export(_ context.Context, req *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	s.grow(func() {
		for _, r := range req.GetResourceLogs() {
			for _, scope := range r.GetScopeLogs() {
				s.logs += len(scope.GetLogRecords())
			}
		}
	})
	return &collogs.ExportLogsServiceResponse{}, nil
}
