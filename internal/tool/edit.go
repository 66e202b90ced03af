package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
)

// editName is the tool's name in rules.
const editName = "edit"

//go:embed edit.md
var editProse string

var editSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The file to change."},
    "old_string": {"type": "string", "minLength": 1, "maxLength": 262144, "description": "The text to replace, exactly as it is in the file."},
    "new_string": {"type": "string", "maxLength": 262144, "description": "The text to put in its place; empty to remove it."},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence rather than the only one. Default: false."}
  },
  "required": ["path", "old_string", "new_string"],
  "additionalProperties": false
}`)

// maxLineNumbers is how many line numbers a result contains.
const maxLineNumbers = 10

type editTool struct{}

func (editTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: editName, Description: editProse, Schema: editSchema}
}

func (editTool) Effect() Effect { return EffectLasting }

// Check: see [Checked].
func (editTool) Check(call Call) error {
	_, err := parseEdit(call.Input)
	return err
}

func (editTool) Call(ctx context.Context, call Call) Outcome {
	in, err := parseEdit(call.Input)
	if err != nil {
		return failed(err)
	}
	return result(change(ctx, call, in.path, in.revise))
}

type editInput struct {
	path, before, after string
	all                 bool
}

func parseEdit(raw json.RawMessage) (editInput, error) {
	in := newInput(raw)
	parsed := editInput{
		path:   in.required("path", maxPath),
		before: in.text("old_string", maxText),
		after:  in.text("new_string", maxText),
		all:    in.flag("replace_all", false),
	}
	if _, given := in.fields["old_string"]; given && parsed.before == "" {
		in.addProblem("old_string: expected a string that is not empty")
	}
	return parsed, in.err()
}

func (in editInput) revise(file *textFile) (after, said string, _ error) {
	if file == nil {
		return "", "", fmt.Errorf("%s: no such file; to make one use %s", displayPath(in.path), writeName)
	}
	before, instead := withBreaksOf(file.content, in.before), withBreaksOf(file.content, in.after)
	n := strings.Count(file.content, before)
	switch {
	case before == instead:
		return "", "", errors.New("old_string and new_string are the same: nothing would change")
	case n == 0 && hasMixedBreaks(file.content) && strings.Contains(plainBreaks(file.content), plainBreaks(before)):
		return "", "", fmt.Errorf("%s: old_string is in the file but for its line breaks, which are of two kinds there: change one line at a time", displayPath(in.path))
	case n == 0:
		return "", "", fmt.Errorf("%s: old_string is not in the file; it has to match exactly, blanks and line breaks included, and without the line numbers of %s",
			displayPath(in.path), readName)
	case n > 1 && !in.all:
		return "", "", fmt.Errorf("%s: old_string is in the file %d times, on %s: give more of what stands around it, or set replace_all",
			displayPath(in.path), n, lineNumbers(file.content, before))
	case !in.all && overlaps(file.content, before):
		return "", "", fmt.Errorf("%s: old_string is in the file more than once, at places that overlap, the first on %s: give more of what stands around it",
			displayPath(in.path), lineNumbers(file.content, before))
	}
	said = fmt.Sprintf("Replaced 1 occurrence, on %s", lineNumbers(file.content, before))
	if n > 1 {
		said = fmt.Sprintf("Replaced %d occurrences, before on %s", n, lineNumbers(file.content, before))
	}
	if grown := len(file.content) + n*(len(instead)-len(before)); grown > maxFile {
		return "", "", fmt.Errorf("%s: would have %d bytes, a file that is written may have %d; nothing was changed", displayPath(in.path), grown, maxFile)
	}
	return strings.ReplaceAll(file.content, before, instead), said, nil
}

// overlaps reports whether a text that is in the file occurs there again before its first occurrence
// ends, as two closing braces do among three. Which of them is meant is not known.
func overlaps(file, text string) bool {
	first := strings.Index(file, text)
	return strings.Contains(file[first+1:min(len(file), first+2*len(text)-1)], text)
}

// withBreaksOf converts the line breaks of a text to CRLF if all line breaks of the file are CRLF:
// a model does not see which kind they are.
func withBreaksOf(file, text string) string {
	if n := strings.Count(file, "\n"); n == 0 || n != strings.Count(file, "\r\n") {
		return text
	}
	return strings.ReplaceAll(plainBreaks(text), "\n", "\r\n")
}

func plainBreaks(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// hasMixedBreaks reports whether a text has line breaks of both kinds.
func hasMixedBreaks(text string) bool {
	n := strings.Count(text, "\r\n")
	return n > 0 && n < strings.Count(text, "\n")
}

// lineNumbers lists the lines on which a text occurs.
func lineNumbers(content, text string) string {
	var lines []string
	line := 1
	for range maxLineNumbers {
		before, rest, found := strings.Cut(content, text)
		if !found {
			break
		}
		line += strings.Count(before, "\n")
		lines = append(lines, fmt.Sprint(line))
		line += strings.Count(text, "\n")
		content = rest
	}
	list := strings.Join(lines, ", ")
	if strings.Contains(content, text) {
		list += " and more"
	}
	if len(lines) == 1 {
		return "line " + list
	}
	return "lines " + list
}
