package anthropic

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// stream is what a server answers with every request.
type stream string

func (s stream) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(string(s))),
	}, nil
}

// declining is a stream that ends in a refusal, in the middle of an answer.
const declining = stream(`event: message_start
data: {"type":"message_start","message":{"model":"x","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm","signature":"s"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Step one: take the"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a","name":"ls","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"It could do harm."}},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`)

// TestARefusalIsAllThatStaysOfAnAnswer: what the model had begun to say is part of what it
// declined, and would be declined again if it went back.
func TestARefusalIsAllThatStaysOfAnAnswer(t *testing.T) {
	t.Parallel()
	m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: declining}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := m.Generate(t.Context(), &model.Request{Messages: []tree.Message{said(tree.RoleUser, tree.Text{Text: "hi"})}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []tree.Block{tree.Text{Text: "It could do harm."}}; answer.Stop != tree.StopRefusal || !reflect.DeepEqual(answer.Blocks, want) {
		t.Errorf("answered %+v", answer)
	}
}

// TestAnUnknownReasonMayHaveCutTheLastCall: only if its input is complete and not empty is it known
// that the model had finished it.
func TestAnUnknownReasonMayHaveCutTheLastCall(t *testing.T) {
	t.Parallel()
	call := func(index int, input string) []string {
		of := fmt.Sprintf(`","index":%d`, index)
		return []string{
			`content_block_start` + of + `,"content_block":{"type":"tool_use","id":"c","name":"ls","input":{}}`,
			`content_block_delta` + of + `,"delta":{"type":"input_json_delta","partial_json":` + strconv.Quote(input) + `}`,
			`content_block_stop` + of,
		}
	}
	for _, c := range []struct{ reason, input, want string }{
		{`"tool_use"`, "", "{}"},
		{`"new"`, "", "{"},
		{`"new"`, "{}", "{"},
		{`"new"`, `{"a":`, `{"a":`},
		{`"new"`, `{"a":1}`, `{"a":1}`},
		{`null`, "", "{"},
	} {
		events := slices.Concat([]string{`message_start","message":{"model":"x"}`}, call(0, ""), call(1, c.input),
			[]string{`message_delta","delta":{"stop_reason":` + c.reason + `}`, `message_stop"`})
		var from stream
		for _, event := range events {
			name, _, _ := strings.Cut(event, `"`)
			from += stream("event: " + name + "\ndata: {\"type\":\"" + event + "}\n\n")
		}
		m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: from}})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := m.Generate(t.Context(), &model.Request{Messages: []tree.Message{said(tree.RoleUser, tree.Text{Text: "hi"})}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var inputs []string
		for _, b := range answer.Blocks {
			inputs = append(inputs, string(b.(tree.ToolUse).Input))
		}
		if !slices.Equal(inputs, []string{"{}", c.want}) {
			t.Errorf("%s after %q: the inputs are %q", c.reason, c.input, inputs)
		}
	}
}
