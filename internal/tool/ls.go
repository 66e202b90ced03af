package tool

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/coppice-run/coppice/internal/model"
)

//go:embed ls.md
var lsProse string

var lsSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "path": {"type": "string", "maxLength": 4096, "description": "The directory to list. Default: the workspace itself."}
  },
  "additionalProperties": false
}`)

// maxPath bounds a path in an input, in characters.
const maxPath = 4096

type lsTool struct{}

func (lsTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "ls", Description: lsProse, Schema: lsSchema}
}

func (lsTool) Effect() Effect { return EffectNone }

// Check: see [Checked].
func (lsTool) Check(call Call) error {
	_, err := parseLs(call.Input)
	return err
}

func (lsTool) Call(ctx context.Context, call Call) Outcome {
	path, err := parseLs(call.Input)
	if err != nil {
		return failed(err)
	}
	return result(ls(ctx, call.Workspace, path))
}

func parseLs(raw json.RawMessage) (path string, err error) {
	in := newInput(raw)
	path = in.optional("path", ".", maxPath)
	return path, in.err()
}

func ls(ctx context.Context, w *Workspace, path string) (string, error) {
	dir, err := w.rel(path)
	if err != nil {
		return "", err
	}
	// More entries cannot be shown: the shortest one takes two bytes.
	entries, total, err := w.list(ctx, dir, "", maxOutput/2)
	if err != nil {
		return "", err
	}
	var out listing
	for _, e := range entries {
		if !out.add(displayPath(e.name)) {
			break
		}
	}
	if out.lines < total {
		out.noteCut("%d of %d entries shown; list a subdirectory, or use glob with a pattern for the names you want", out.lines, total)
	}
	return out.textOr("The directory is empty"), nil
}
