package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/coppice-run/coppice/internal/model"
)

//go:embed glob.md
var globProse string

var globSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "What the paths have to look like, e.g. **/*_test.go or cmd/{server,client}/*.go"},
    "path": {"type": "string", "maxLength": 4096, "description": "The directory to search, which the pattern starts from. Default: the workspace itself."}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`)

const (
	// maxPattern bounds a glob or a regular expression, in characters.
	maxPattern = 1000
	// maxAlternatives bounds how many patterns a glob with braces stands for: each may be matched
	// against each path.
	maxAlternatives = 256
)

const noFiles = "No files found"

type globTool struct{}

func (globTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "glob", Description: globProse, Schema: globSchema}
}

func (globTool) Effect() Effect { return EffectNone }

// Check: see [Checked].
func (globTool) Check(call Call) error {
	_, err := parseGlob(call.Input)
	return err
}

func (globTool) Call(ctx context.Context, call Call) Outcome {
	in, err := parseGlob(call.Input)
	if err != nil {
		return failed(err)
	}
	return result(glob(ctx, call.Workspace, in))
}

type globInput struct{ pattern, path string }

func parseGlob(raw json.RawMessage) (globInput, error) {
	in := newInput(raw)
	parsed := globInput{
		pattern: in.required("pattern", maxPattern),
		path:    in.optional("path", ".", maxPath),
	}
	if err := in.err(); err != nil {
		return globInput{}, err
	}
	return parsed, checkGlob("pattern", parsed.pattern)
}

// checkGlob refuses a pattern that is malformed or slow to match.
func checkGlob(field, pattern string) error {
	if !doublestar.ValidatePattern(pattern) {
		return fmt.Errorf("wrong input: %s: %q is not a valid glob pattern", field, pattern)
	}
	if alternatives(pattern) > maxAlternatives {
		return fmt.Errorf("wrong input: %s: the braces stand for more than %d patterns; use fewer", field, maxAlternatives)
	}
	return nil
}

// alternatives returns an upper bound on how many patterns a pattern with braces stands for. Like
// the matcher, it ignores braces that are escaped or in a class.
func alternatives(pattern string) int {
	total, open := 1, []int(nil)
	escaped, class := false, false
	for _, c := range pattern {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '{':
			open = append(open, 1)
		case c == ',' && len(open) > 0:
			open[len(open)-1]++
		case c == '}' && len(open) > 0:
			total = min(total*open[len(open)-1], maxAlternatives+1)
			open = open[:len(open)-1]
		}
	}
	return total
}

func glob(ctx context.Context, w *Workspace, in globInput) (string, error) {
	start, pattern, err := globStart(w, in)
	if err != nil {
		return "", err
	}
	info, err := w.stat(start)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return noFiles, nil
	}
	if err != nil {
		return "", err
	}
	var out listing
	skipped, full := 0, false
	for name, err := range w.files(ctx, start) {
		if err != nil {
			skipped++
		} else if doublestar.MatchUnvalidated(pattern, below(start, name)) && !out.add(displayPath(name)) {
			full = true
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	out.noteSkipped(skipped)
	if full {
		out.noteCut("the first %d files shown, there are more; use a narrower pattern or a path further down", out.lines)
	}
	return out.textOr(noFiles), nil
}

// globStart moves the fixed directories of the pattern to the start directory, so that only what
// is below them is walked.
func globStart(w *Workspace, in globInput) (start, pattern string, err error) {
	if start, err = w.rel(in.path); err != nil {
		return "", "", err
	}
	info, err := w.stat(start)
	if err != nil {
		return "", "", err
	}
	if !info.IsDir() {
		return "", "", fmt.Errorf("%s: a file; path has to name a directory", displayPath(start))
	}
	base, pattern := splitGlob(start, in.pattern)
	start, err = w.rel(base)
	return start, pattern, err
}

// splitGlob splits the fixed directories off a pattern. They are relative to dir unless they are
// absolute.
func splitGlob(dir, pattern string) (base, rest string) {
	base, rest = doublestar.SplitPattern(pattern)
	if !path.IsAbs(base) {
		base = path.Join(dir, base)
	}
	return base, rest
}

// below returns the path of a file relative to a directory above it.
func below(dir, name string) string {
	if dir == "." {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}
