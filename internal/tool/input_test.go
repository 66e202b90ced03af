package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// schema is as much of JSON Schema as the tools use.
type schema struct {
	Type                 string            `json:"type"`
	Description          string            `json:"description"`
	Properties           map[string]schema `json:"properties"`
	Required             []string          `json:"required"`
	AdditionalProperties *bool             `json:"additionalProperties"`
	Enum                 []string          `json:"enum"`
	MinLength            int               `json:"minLength"`
	MaxLength            int               `json:"maxLength"`
	Minimum              *int64            `json:"minimum"`
	Maximum              *int64            `json:"maximum"`
	Items                *schema           `json:"items"`
	MaxItems             int               `json:"maxItems"`
}

func parseSchema(t *testing.T, raw json.RawMessage) schema {
	t.Helper()
	var s schema
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	must(t, dec.Decode(&s))
	if s.Type != "object" || s.AdditionalProperties == nil || *s.AdditionalProperties {
		t.Errorf("not a closed object: %s", raw)
	}
	return s
}

// samples gives values that a property allows, and values that it does not.
func (s schema) samples(name string) (good, bad []any) {
	all := map[string]any{"string": "a", "integer": 7, "boolean": true}
	for kind, value := range all {
		if kind != s.Type {
			bad = append(bad, value)
		}
	}
	bad = append(bad, nil, map[string]int{})
	if s.Type != "array" {
		bad = append(bad, []string{"a"})
	}
	switch {
	case s.Type == "array":
		good, worse := s.Items.samples(name)
		for _, value := range worse {
			bad = append(bad, []any{value})
		}
		return []any{[]any{}, good}, append(bad, slices.Repeat([]any{good[0]}, s.MaxItems+1))
	case s.Enum != nil:
		return []any{s.Enum[0], s.Enum[len(s.Enum)-1]}, append(bad, "none of these")
	case name == "resume" || name == "task_id":
		return []any{anID}, append(bad, "a")
	case name == "url":
		return []any{"https://a.example/"}, append(bad, "", "a", "https://a.example/"+strings.Repeat("a", s.MaxLength))
	case s.Type == "string":
		if s.MinLength > 0 {
			bad = append(bad, "")
		}
		if s.MaxLength > 0 {
			return []any{"a", strings.Repeat("é", s.MaxLength)}, append(bad, strings.Repeat("é", s.MaxLength+1))
		}
		return []any{"a"}, bad
	case s.Type == "integer":
		bad = append(bad, *s.Minimum-1, 1.5, json.RawMessage("1e400"), json.RawMessage("-1.0"))
		good = append(good, *s.Minimum, *s.Minimum+1, json.RawMessage("7.0"), json.RawMessage("0.7E1"))
		if s.Maximum != nil {
			bad, good = append(bad, *s.Maximum+1), append(good, *s.Maximum)
		}
		return good, bad
	}
	return []any{true, false}, bad
}

// parsers are the decoders of all tools.
func parsers() map[string]func(json.RawMessage) error {
	return map[string]func(json.RawMessage) error{
		"ls":          func(raw json.RawMessage) error { _, err := parseLs(raw); return err },
		"glob":        func(raw json.RawMessage) error { _, err := parseGlob(raw); return err },
		"grep":        func(raw json.RawMessage) error { _, err := parseGrep(raw); return err },
		"read":        func(raw json.RawMessage) error { _, err := parseRead(raw); return err },
		"write":       func(raw json.RawMessage) error { _, err := parseWrite(raw); return err },
		"edit":        func(raw json.RawMessage) error { _, err := parseEdit(raw); return err },
		"task_output": func(raw json.RawMessage) error { _, err := parseTaskOutput(raw); return err },
		"kill_task":   func(raw json.RawMessage) error { _, err := parseKillTask(raw); return err },
		"task": func(raw json.RawMessage) error {
			_, err := taskTool{agents: []string{"explore", "plan"}}.parse(raw)
			return err
		},
		BashTool: func(raw json.RawMessage) error {
			if _, _, err := (bashTool{}).parse(Call{Input: raw}); !errors.Is(err, errNoWorkspace) {
				return err
			}
			return nil
		},
		WebFetchTool: func(raw json.RawMessage) error { _, err := parseWebFetch(raw); return err },
		SkillTool:    func(raw json.RawMessage) error { _, _, err := parseSkill(raw); return err },
		DocsTool:     func(raw json.RawMessage) error { _, _, _, err := parseDocs(raw); return err },
		FindTool:     func(raw json.RawMessage) error { _, _, err := parseFind(raw); return err },
	}
}

// What a schema tells the model is what the decoder takes, field by field.
func TestSchemasAndDecodersAgree(t *testing.T) {
	t.Parallel()
	for _, tool := range every() {
		spec := tool.Spec()
		parse := parsers()[spec.Name]
		if parse == nil {
			t.Fatalf("%s has no decoder in parsers()", spec.Name)
		}
		if spec.Description == "" || !utf8.ValidString(spec.Description) {
			t.Errorf("%s: description %q", spec.Name, spec.Description)
		}
		s := parseSchema(t, spec.Schema)
		try := func(fields map[string]any, ok bool) {
			t.Helper()
			raw, err := json.Marshal(fields)
			must(t, err)
			if err := parse(raw); (err == nil) != ok {
				t.Errorf("%s %.200s: %v", spec.Name, raw, err)
			}
		}
		base := map[string]any{}
		for _, name := range s.Required {
			good, _ := s.Properties[name].samples(name)
			base[name] = good[0]
		}
		if spec.Name == BashTool {
			base["run_in_background"] = true // or else a timeout has a lower bound
		}
		try(base, true)
		for _, name := range s.Required {
			less := maps.Clone(base)
			delete(less, name)
			try(less, false)
		}
		for name, property := range s.Properties {
			if property.Description == "" {
				t.Errorf("%s: %s is not described", spec.Name, name)
			}
			good, bad := property.samples(name)
			for _, value := range good {
				more := maps.Clone(base)
				more[name] = value
				try(more, true)
			}
			for _, value := range bad {
				more := maps.Clone(base)
				more[name] = value
				try(more, false)
			}
			upper := maps.Clone(base)
			upper[strings.ToUpper(name)] = good[0]
			try(upper, false)
		}
		const known = "the fields are "
		err := parse([]byte(`{"no such field":1}`))
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if err == nil || !strings.Contains(err.Error()[strings.Index(err.Error(), known):], name) {
				t.Errorf("%s: %s is not among the fields in %v", spec.Name, name, err)
			}
		}
	}
}

func TestMalformedInput(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		`{`: "not valid JSON", `nonsense`: "not valid JSON", `{} {}`: "not valid JSON", `{"a":1,}`: "not valid JSON",
		`[]`: "expected an object, got a list", `"x"`: "got a string", `null`: "got null", `3`: "got a number",
		`true`: "got a boolean", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000): "not valid JSON",
	} {
		for name, parse := range parsers() {
			if err := parse([]byte(input)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %.20s: %v, want %q", name, input, err, want)
			}
		}
	}
}

func TestErrorResultsAreBounded(t *testing.T) {
	t.Parallel()
	got := call(t, setup(t), "ls", fmt.Sprintf(`{%q:1}`, strings.Repeat("é", 50_000)))
	if !got.IsError || len(got.Text) > maxError+100 || !utf8.ValidString(got.Text) {
		t.Errorf("%d bytes", len(got.Text))
	}
}
