package jaegertest

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/otlptest"
)

// answered is a trace as Jaeger answers it.
const answered = `{
  "traceID": "aa", "warnings": ["odd"],
  "processes": {"p1": {"serviceName": "coppice-worker", "tags": [{"key": "service.instance.id", "type": "string", "value": "host-1"}]}},
  "spans": [{
    "traceID": "aa", "spanID": "02", "operationName": "attempt lost", "processID": "p1", "startTime": 1500000, "duration": 250,
    "references": [{"refType": "FOLLOWS_FROM", "spanID": "09"}, {"refType": "CHILD_OF", "spanID": "01"}],
    "tags": [
      {"key": "coppice.epoch", "type": "int64", "value": 9007199254740993},
      {"key": "coppice.run.background", "type": "bool", "value": false},
      {"key": "otel.status_code", "type": "string", "value": "ERROR"},
      {"key": "otel.status_description", "type": "string", "value": "the worker was lost"}
    ],
    "warnings": ["late"]
  }]
}`

func TestReadTrace(t *testing.T) {
	t.Parallel()
	var from trace
	if err := json.Unmarshal([]byte(answered), &from); err != nil {
		t.Fatal(err)
	}
	got, err := from.read()
	if err != nil {
		t.Fatal(err)
	}
	want := Trace{ID: "aa", Warnings: []string{"odd", "late"}, Spans: []otlptest.Span{{
		Trace: "aa", ID: "02", Parent: "01", Name: "attempt lost", Service: "coppice-worker", Failed: true, Message: "the worker was lost",
		Start: time.UnixMicro(1_500_000), End: time.UnixMicro(1_500_250),
		Texts:   map[string]string{"service.instance.id": "host-1", "otel.status_code": "ERROR", "otel.status_description": "the worker was lost"},
		Numbers: map[string]int64{"coppice.epoch": 9007199254740993},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReadWhatIsNotAsItSays(t *testing.T) {
	t.Parallel()
	for _, bad := range []tag{
		{Key: "a", Type: "string", Value: json.RawMessage(`1`)},
		{Key: "a", Type: "int64", Value: json.RawMessage(`"1"`)},
	} {
		if got, err := (trace{Spans: []span{{Tags: []tag{bad}}}}).read(); err == nil {
			t.Errorf("%s as a %s was read as %+v", bad.Value, bad.Type, got)
		}
	}
}
