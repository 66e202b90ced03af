package transcript_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// censor puts an x in the place of each "bad".
type censor struct{}

func (censor) String(text string) string { return strings.ReplaceAll(text, "bad", "x") }
func (censor) JSON(text string) string   { return strings.ReplaceAll(text, "bad", "j") }

func TestClean(t *testing.T) {
	t.Parallel()
	messages := []tree.Message{{Model: "bad", Blocks: []tree.Block{
		tree.Text{Text: "a bad one"}, tree.Thinking{Text: "good", Signature: "s"}, tree.Thinking{Text: "bad", Signature: "s"},
		tree.Thinking{Text: "good", Signature: "bad"}, tree.ToolUse{ProviderID: "bad", Name: "bad", Input: json.RawMessage(`"bad"`)},
		tree.ToolResult{Block: 3, ProviderID: "bad", Text: "bad", IsError: true},
		tree.Attachment{MediaType: "text/plain", Name: "bad", Data: []byte("bad")}, tree.Attachment{MediaType: "image/png", URL: "bad", Data: []byte("bad")},
	}}}
	transcript.CleanAll(messages, censor{})
	want := []tree.Message{{Model: "x", Blocks: []tree.Block{
		tree.Text{Text: "a x one"}, tree.Thinking{Text: "good", Signature: "s"}, tree.Thinking{Text: "x"},
		tree.Thinking{Text: "good"}, tree.ToolUse{ProviderID: "x", Name: "x", Input: json.RawMessage(`"j"`)},
		tree.ToolResult{Block: 3, ProviderID: "x", Text: "x", IsError: true},
		tree.Attachment{MediaType: "text/plain", Name: "x", Data: []byte("x")}, tree.Attachment{MediaType: "image/png", URL: "x", Data: []byte("bad")},
	}}}
	if !reflect.DeepEqual(messages, want) {
		t.Errorf("got %+v", messages)
	}
}
