package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/tree"
)

// input parses the input of a call, one method call for each field. Nothing is guessed: an unknown
// or duplicate field or a wrong type is a problem. err returns all problems in words that a model
// can act on.
type input struct {
	fields     map[string]json.RawMessage
	fieldNames []string
	problems   []string
}

func newInput(raw json.RawMessage) *input {
	in := &input{fields: map[string]json.RawMessage{}}
	if len(bytes.TrimSpace(raw)) == 0 {
		return in
	}
	if !json.Valid(raw) {
		in.addProblem("the input is not valid JSON: expected one object")
		return in
	}
	if kind := kindOf(raw); kind != "an object" {
		in.addProblem("expected an object, got %s", kind)
		return in
	}
	in.splitFields(raw)
	return in
}

// splitFields splits an object into its fields. Unmarshalling into a map would hide duplicates.
func (in *input) splitFields(object json.RawMessage) {
	const between = " \t\r\n,:"
	rest := bytes.TrimLeft(object, between)[1:]
	for {
		rest = bytes.TrimLeft(rest, between)
		if rest[0] == '}' {
			return
		}
		end := valueEnd(rest)
		name, err := unquoted(rest[:end])
		if err != nil {
			in.addProblem("the name of a field: %v", err)
		}
		rest = bytes.TrimLeft(rest[end:], between)
		end = valueEnd(rest)
		if _, twice := in.fields[name]; twice {
			in.addProblem("field %q is given twice", name)
		}
		in.fields[name] = rest[:end:end]
		rest = rest[end:]
	}
}

// valueEnd returns the length of the JSON value at the beginning of raw, which must be valid.
func valueEnd(raw []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && strings.IndexByte(" \t\r\n,:}]", c) >= 0:
			return i
		}
	}
	return len(raw)
}

// unquoted returns the text of a JSON string.
func unquoted(raw json.RawMessage) (text string, err error) {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &text)
	return text, err
}

func (in *input) addProblem(format string, args ...any) {
	in.problems = append(in.problems, fmt.Sprintf(format, args...))
}

// field returns the raw value of a field; ok is false if it is absent.
func (in *input) field(name string) (raw json.RawMessage, ok bool) {
	in.fieldNames = append(in.fieldNames, name)
	raw, ok = in.fields[name]
	return raw, ok
}

// required reads a string that must be present and not blank.
func (in *input) required(name string, limit int) string {
	before := len(in.problems)
	s := in.text(name, limit)
	if strings.TrimSpace(s) == "" && len(in.problems) == before {
		in.addProblem("%s: expected a string that is not blank", name)
	}
	return s
}

// text reads a string that must be present, and may be blank or empty.
func (in *input) text(name string, limit int) string {
	if _, ok := in.fields[name]; !ok {
		in.fieldNames = append(in.fieldNames, name)
		in.addProblem("%s: missing, expected a string", name)
		return ""
	}
	return in.optional(name, "", limit)
}

// optional reads a string of at most limit characters; if absent, the fallback.
func (in *input) optional(name, fallback string, limit int) string {
	raw, ok := in.field(name)
	if !ok {
		return fallback
	}
	if kind := kindOf(raw); kind != "a string" {
		in.addProblem("%s: expected a string, got %s", name, kind)
		return ""
	}
	s, err := unquoted(raw)
	if err != nil {
		in.addProblem("%s: expected a string: %v", name, err)
	} else if n := utf8.RuneCountInString(s); n > limit {
		in.addProblem("%s: expected at most %d characters, got %d", name, limit, n)
	} else if strings.ContainsRune(s, 0) {
		in.addProblem("%s: expected text without NUL characters", name)
	}
	return s
}

// stringList reads a list of strings that are not blank; nil if absent.
func (in *input) stringList(name string, most, limit int) []string {
	raw, ok := in.field(name)
	if !ok {
		return nil
	}
	var list []json.RawMessage
	if kind := kindOf(raw); kind != "a list" {
		in.addProblem("%s: expected a list of strings, got %s", name, kind)
		return nil
	} else if err := json.Unmarshal(raw, &list); err != nil {
		in.addProblem("%s: expected a list of strings: %v", name, err)
		return nil
	}
	if len(list) > most {
		in.addProblem("%s: expected at most %d entries, got %d", name, most, len(list))
		return nil
	}
	out := make([]string, len(list))
	for i, raw := range list {
		entry := &input{fields: map[string]json.RawMessage{name: raw}}
		out[i] = entry.required(name, limit)
		in.problems = append(in.problems, entry.problems...)
	}
	return out
}

// choice reads one of a few words.
func (in *input) choice(name, fallback string, of ...string) string {
	before := len(in.problems)
	s := in.optional(name, fallback, maxError)
	if !slices.Contains(of, s) && len(in.problems) == before {
		in.addProblem("%s: expected one of %s, got %q", name, strings.Join(of, ", "), s)
	}
	return s
}

// number reads a whole number from low to high.
func (in *input) number(name string, fallback, low, high int64) int64 {
	raw, ok := in.field(name)
	if !ok {
		return fallback
	}
	if kind := kindOf(raw); kind != "a number" {
		in.addProblem("%s: expected a whole number, got %s", name, kind)
		return fallback
	}
	n, err := wholeNumber(string(raw))
	if err != nil || n < low || n > high {
		in.addProblem("%s: expected a whole number from %d to %d, got %s", name, low, high, raw)
		return fallback
	}
	return n
}

// wholeNumber returns the value of a JSON number. In JSON Schema, 5.0 and 5e0 are whole numbers too,
// and some models write all numbers like that.
func wholeNumber(raw string) (int64, error) {
	n, err := strconv.ParseInt(raw, 10, 64)
	if err == nil {
		return n, nil
	}
	const exact = 1 << 53 // larger numbers are not exact
	if f, wrong := strconv.ParseFloat(raw, 64); wrong == nil && math.Trunc(f) == f && math.Abs(f) <= exact {
		return int64(f), nil
	}
	return 0, err
}

// flag reads a boolean.
func (in *input) flag(name string, fallback bool) bool {
	raw, ok := in.field(name)
	if !ok {
		return fallback
	}
	if kind := kindOf(raw); kind != "a boolean" {
		in.addProblem("%s: expected true or false, got %s", name, kind)
	}
	return string(raw) == "true"
}

// taskID reads the id of a task; zero if it is absent and optional.
func (in *input) taskID(name string, must bool) tree.TaskID {
	if _, ok := in.fields[name]; !ok && !must {
		in.fieldNames = append(in.fieldNames, name)
		return tree.TaskID{}
	}
	before := len(in.problems)
	s := in.required(name, maxError)
	if len(in.problems) > before {
		return tree.TaskID{}
	}
	id, err := tree.ParseID[tree.Task](s)
	if err != nil || id.IsZero() {
		in.addProblem("%s: expected the id of a task as you were given it, got %q", name, s)
	}
	return id
}

// err returns all problems. Call it after all fields have been read.
func (in *input) err() error {
	var unknown []string
	for name := range in.fields {
		if !slices.Contains(in.fieldNames, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		in.addProblem("unknown field %q: the fields are %s", name, strings.Join(in.fieldNames, ", "))
	}
	if len(in.problems) == 0 {
		return nil
	}
	return errors.New("wrong input: " + strings.Join(in.problems, "; "))
}

// kindOf names the type of a JSON value.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
