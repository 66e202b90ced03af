package jaegertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/otlptest"
)

// patience is how long spans may take to come, and pause how long to wait before
// Jaeger, which tells nobody of what comes, is asked again.
const (
	patience = 2 * time.Minute
	pause    = 100 * time.Millisecond
)

// Trace is a trace as Jaeger answers it.
type Trace struct {
	ID       string
	Spans    []otlptest.Span // the attributes of who has sent one are among its texts
	Warnings []string        // what Jaeger finds wrong with the trace or with spans
}

// Traces gives all traces in which a service has a part: as they came, or, if mended
// is asked for, as Jaeger's pages show them.
func (s *Server) Traces(service string, mended bool) []Trace {
	s.t.Helper()
	query := url.Values{"service": {service}, "limit": {"1000"}, "lookback": {"1h"}, "raw": {fmt.Sprint(!mended)}}
	var answer struct {
		Data []trace `json:"data"`
	}
	if err := get("http://"+s.Addr()+"/api/traces?"+query.Encode(), &answer); err != nil {
		s.t.Fatalf("asking Jaeger for traces: %v", err)
	}
	var all []Trace
	for _, found := range answer.Data {
		t, err := found.read()
		if err != nil {
			s.t.Fatalf("reading trace %s: %v", found.TraceID, err)
		}
		all = append(all, t)
	}
	return all
}

// Services gives the names of all who have sent spans.
func (s *Server) Services() []string {
	s.t.Helper()
	var answer struct {
		Data []string `json:"data"`
	}
	if err := get("http://"+s.Addr()+"/api/services", &answer); err != nil {
		s.t.Fatalf("asking Jaeger for services: %v", err)
	}
	return answer.Data
}

// Until asks for the traces of a service until they are enough, and gives them.
func (s *Server) Until(what, service string, enough func([]Trace) bool) []Trace {
	s.t.Helper()
	again := time.NewTicker(pause)
	defer again.Stop()
	late := time.After(patience)
	for {
		traces := s.Traces(service, false)
		if enough(traces) {
			return traces
		}
		select {
		case <-again.C:
		case <-late:
			s.t.Fatalf("of %d traces: not yet %s", len(traces), what)
		}
	}
}

func get(url string, into any) error {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s: %s (%w)", resp.Status, said, err)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// trace is what Jaeger's API has for a trace.
type trace struct {
	TraceID   string             `json:"traceID"`
	Spans     []span             `json:"spans"`
	Processes map[string]process `json:"processes"`
	Warnings  []string           `json:"warnings"`
}

type process struct {
	ServiceName string `json:"serviceName"`
	Tags        []tag  `json:"tags"`
}

type span struct {
	TraceID       string      `json:"traceID"`
	SpanID        string      `json:"spanID"`
	OperationName string      `json:"operationName"`
	References    []reference `json:"references"`
	StartTime     int64       `json:"startTime"` // in microseconds, as is
	Duration      int64       `json:"duration"`
	Tags          []tag       `json:"tags"`
	ProcessID     string      `json:"processID"`
	Warnings      []string    `json:"warnings"`
}

type reference struct {
	RefType string `json:"refType"`
	SpanID  string `json:"spanID"`
}

type tag struct {
	Key   string          `json:"key"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

func (t trace) read() (Trace, error) {
	out := Trace{ID: t.TraceID, Warnings: t.Warnings}
	for _, s := range t.Spans {
		read, err := s.read(t.Processes[s.ProcessID])
		if err != nil {
			return Trace{}, fmt.Errorf("span %s: %w", s.SpanID, err)
		}
		out.Spans = append(out.Spans, read)
		out.Warnings = append(out.Warnings, s.Warnings...)
	}
	return out, nil
}

func (s span) read(by process) (otlptest.Span, error) {
	out := otlptest.Span{
		Trace: s.TraceID, ID: s.SpanID, Name: s.OperationName, Service: by.ServiceName,
		Start: time.UnixMicro(s.StartTime), End: time.UnixMicro(s.StartTime + s.Duration),
		Texts: map[string]string{}, Numbers: map[string]int64{},
	}
	for _, r := range s.References {
		if r.RefType == "CHILD_OF" {
			out.Parent = r.SpanID
		}
	}
	for _, t := range slices.Concat(by.Tags, s.Tags) {
		if err := t.add(&out); err != nil {
			return otlptest.Span{}, fmt.Errorf("%s is a %s: %w", t.Key, t.Type, err)
		}
	}
	out.Failed = out.Texts["otel.status_code"] == "ERROR"
	out.Message = out.Texts["otel.status_description"]
	return out, nil
}

// add adds what is a text or a whole number, which is all that tests look at.
func (t tag) add(to *otlptest.Span) error {
	switch t.Type {
	case "string":
		var text string
		if err := json.Unmarshal(t.Value, &text); err != nil {
			return err
		}
		to.Texts[t.Key] = text
	case "int64":
		var number int64
		if err := json.Unmarshal(t.Value, &number); err != nil {
			return err
		}
		to.Numbers[t.Key] = number
	}
	return nil
}
