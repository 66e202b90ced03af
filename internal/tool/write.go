package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/coppice-run/coppice/internal/model"
)

// writeName is the tool's name in rules.
const writeName = "write"

//go:embed write.md
var writeProse string

var writeSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The file to write."},
    "content": {"type": "string", "maxLength": 262144, "description": "All that the file is to hold."}
  },
  "required": ["path", "content"],
  "additionalProperties": false
}`)

type writeTool struct{}

func (writeTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: writeName, Description: writeProse, Schema: writeSchema}
}

func (writeTool) Effect() Effect { return EffectLasting }

// Check: see [Checked].
func (writeTool) Check(call Call) error {
	_, err := parseWrite(call.Input)
	return err
}

func (writeTool) Call(ctx context.Context, call Call) Outcome {
	in, err := parseWrite(call.Input)
	if err != nil {
		return failed(err)
	}
	return result(change(ctx, call, in.path, in.revise))
}

type writeInput struct{ path, content string }

func parseWrite(raw json.RawMessage) (writeInput, error) {
	in := newInput(raw)
	parsed := writeInput{path: in.required("path", maxPath), content: in.text("content", maxText)}
	return parsed, in.err()
}

func (in writeInput) revise(before *textFile) (after, said string, _ error) {
	if before == nil {
		return in.content, fmt.Sprintf("Made the file: %d bytes", len(in.content)), nil
	}
	after = withBreaksOf(before.content, in.content)
	return after, fmt.Sprintf("Wrote the file: %d bytes instead of %d", len(after), len(before.content)), nil
}
