package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Whatever a model writes, each tool answers with a result that can be stored,
// or asks for something that makes sense.
func FuzzInput(f *testing.F) {
	w := setup(f, "a.go", "package a\n", "b/b.txt", "text\nlong "+strings.Repeat("x", 10_000), "bin", "\x00")
	tools := append(Builtin(), NewTask(agents))
	for _, seed := range []string{
		`{}`, ``, `null`, `{"path":"a.go","offset":1,"limit":1}`, `{"path":"../secret"}`, `{"pattern":"**/*.{go,txt}"}`,
		`{"pattern":"x+","output_mode":"content","case_insensitive":true,"head_limit":3,"glob":"*"}`,
		`{"description":"d","prompt":"p","subagent_type":"plan","model":"m","resume":"` + anID + `","run_in_background":true}`,
		`{"task_id":"` + anID + `","block":false,"timeout":10}`, `{"path":"\ud800"}`, `{"path":1e999}`,
		`{"path":"new/a.txt","content":"x\n"}`, `{"path":"a.go","old_string":"a","new_string":"b","replace_all":true}`,
		`{"pattern":"{a,b}{[^c]*,**}\\"}`, `{"pattern":"(?i)\\pL{5}(a|b)*$","path":"b"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, tool := range tools {
			name := tool.Spec().Name
			switch out := tool.Call(t.Context(), Call{Input: input, Workspace: w}).(type) {
			case Done:
				if out.Text == "" || len(out.Text) > maxOutput || !utf8.ValidString(out.Text) || strings.Contains(out.Text, "\x00") {
					t.Errorf("%s: result %q", name, out.Text)
				}
				if strings.Contains(out.Text, secret) {
					t.Errorf("%s got out: %q", name, out.Text)
				}
			case Spawn:
				known := slices.ContainsFunc(agents, func(a Spawnable) bool { return a.Name == out.Agent })
				if name != "task" || !known || out.Prompt == "" || out.Description == "" {
					t.Errorf("%s: %+v", name, out)
				}
			case Wait:
				if name != "task_output" && name != "kill_task" || out.Stop != (name == "kill_task") || out.Task.IsZero() || out.Timeout < 0 || out.Timeout > 10*time.Minute {
					t.Errorf("%s: %+v", name, out)
				}
			default:
				t.Errorf("%s: %T", name, out)
			}
		}
	})
}

// The fields of an input are those that a decoder of JSON finds.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, "{\n\t\"a\" : -1.5e3 ,\r\n\"b\":null}", `{"a":"}","b":"\"{[,:\\","c":true}`,
		`{"a":{"b":[1,{"c":"]"}]},"d":[],"e":[[]],"f":{}}`, `{"a":1,"a":"2"}`, `{"a":1,"\u0061":2}`,
		`{"":"","\ud800":"\ud83d\ude00","é":"日本"}`, "{\"\xff\":\"\xfe\"}", `{"a":1`, `[]`, `{"a" "b"}`, `{"a":"\\"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, twice, err := decoded(raw)
		if err != nil {
			return // no object, which newInput says before it looks for fields
		}
		in := newInput(raw)
		if !maps.EqualFunc(in.fields, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%q: the fields are %q, not %q", raw, want, in.fields)
		}
		if len(in.problems) != twice {
			t.Errorf("%q: %d fields are there twice, not %d: %q", raw, twice, len(in.problems), in.problems)
		}
		for name, value := range want {
			if kindOf(value) != "a string" {
				continue
			}
			var text string
			must(t, json.Unmarshal(value, &text))
			if got, err := unquoted(in.fields[name]); err != nil || got != text {
				t.Errorf("%q: the text of %q is %q, not %q (%v)", raw, name, text, got, err)
			}
		}
	})
}

// decoded takes an object apart as encoding/json does, and counts names that come again.
func decoded(raw []byte) (fields map[string]json.RawMessage, twice int, _ error) {
	if !json.Valid(raw) || kindOf(raw) != "an object" {
		return nil, 0, fmt.Errorf("%q is no object", raw)
	}
	fields = map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, 0, err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, 0, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, 0, err
		}
		if _, there := fields[fmt.Sprint(name)]; there {
			twice++
		}
		fields[fmt.Sprint(name)] = value
	}
	return fields, twice, nil
}
