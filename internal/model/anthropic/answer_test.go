package anthropic

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// declining is a stream that ends in a refusal, in the middle of an answer.
type declining struct{}

func (declining) RoundTrip(*http.Request) (*http.Response, error) {
	const said = `event: message_start
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

`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(said)),
	}, nil
}

// TestARefusalIsAllThatStaysOfAnAnswer: what the model had begun to say is part of what it
// declined, and would be declined again if it went back.
func TestARefusalIsAllThatStaysOfAnAnswer(t *testing.T) {
	t.Parallel()
	m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: declining{}}})
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
