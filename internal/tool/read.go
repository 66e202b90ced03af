package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/coppice-run/coppice/internal/model"
)

// readName is the tool's name in rules.
const readName = "read"

//go:embed read.md
var readProse string

var readSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The file to read."},
    "offset": {"type": "integer", "minimum": 1, "description": "The number of the first line wanted. Default: 1."},
    "limit": {"type": "integer", "minimum": 1, "description": "How many lines are wanted. Default: 2000."}
  },
  "required": ["path"],
  "additionalProperties": false
}`)

const (
	// readLimit is the default number of lines.
	readLimit = 2000
	// readShown is the maximum number of bytes of a line.
	readShown = 2000
)

type readTool struct{}

func (readTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: readName, Description: readProse, Schema: readSchema}
}

func (readTool) Effect() Effect { return EffectNone }

// Check: see [Checked].
func (readTool) Check(call Call) error {
	_, err := parseRead(call.Input)
	return err
}

func (readTool) Call(ctx context.Context, call Call) Outcome {
	in, err := parseRead(call.Input)
	if err != nil {
		return failed(err)
	}
	return result(read(ctx, call.Workspace, in))
}

type readInput struct {
	path          string
	offset, limit int64
}

func parseRead(raw json.RawMessage) (readInput, error) {
	in := newInput(raw)
	parsed := readInput{
		path:   in.required("path", maxPath),
		offset: in.number("offset", 1, 1, math.MaxInt64),
		limit:  in.number("limit", readLimit, 1, math.MaxInt64),
	}
	return parsed, in.err()
}

func read(ctx context.Context, w *Workspace, in readInput) (text string, err error) {
	name, err := w.rel(in.path)
	if err != nil {
		return "", err
	}
	lines, sum := newLineReader(readShown), newDigest()
	lines.tee = sum
	file, err := w.openText(ctx, name, lines)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	text, err = numbered(name, lines, in)
	if err != nil {
		return "", err
	}
	// The version is that of the whole file. What is buffered has been counted already.
	rest := maxFile + 1 - sum.size + int64(lines.buf.Buffered())
	if _, err := io.CopyN(io.Discard, lines.buf, max(0, rest)); err != nil && !errors.Is(err, io.EOF) {
		return "", pathError(name, err)
	}
	return withVersion(text, sum.version()), nil
}

// numbered returns the requested lines, each with its number.
func numbered(name string, lines *lineReader, in readInput) (string, error) {
	var out listing
	for number := int64(1); ; number++ {
		line, size, err := lines.next()
		if errors.Is(err, io.EOF) {
			return ended(&out, in, number-1)
		}
		if errors.Is(err, errLongLine) {
			return stuck(&out, in, number-1)
		}
		if err != nil {
			return "", pathError(name, err)
		}
		if number < in.offset {
			continue
		}
		text := fmt.Sprintf("%6d\t%s", number, printable(line, size, readShown))
		if int64(out.lines) == in.limit || !out.add(text) {
			out.noteCut("lines %d to %d shown, the file goes on; continue with offset %d, or use grep to find the lines you want", in.offset, number-1, number)
			return out.textOr(""), nil
		}
	}
}

// ended returns the text of a file that was read to its end.
func ended(out *listing, in readInput, total int64) (string, error) {
	if out.lines == 0 && in.offset > 1 {
		return "", fmt.Errorf("offset: the file has only %d lines", total)
	}
	return out.textOr("The file is empty"), nil
}

// stuck returns the text of a file that was read up to a line that is too long.
func stuck(out *listing, in readInput, last int64) (string, error) {
	if last < in.offset {
		return "", fmt.Errorf("offset: line %d of the file is %w", last, errLongLine)
	}
	out.noteCut("line %d is %v", last, errLongLine)
	return out.textOr(""), nil
}
