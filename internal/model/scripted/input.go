package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/goccy/go-yaml/ast"
)

// input is a part of a tool's input in the scenario: [object], [array], [*snippet] or
// [literal]. It renders to JSON, in the order of the file.
type input interface {
	write(v *view, d *templateData, into *bytes.Buffer) error
}

type (
	object  []member
	array   []input
	literal string // JSON text
)

type member struct {
	key   string
	value input
}

// inputOf reads the input of a call: a mapping, or a template that produces the JSON of an
// object.
func (r reader) inputOf(n ast.Node) (input, error) {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		s, err := r.template(n, "input")
		if err != nil {
			return nil, err
		}
		return wholeObject{s}, nil
	case *ast.MappingNode:
		return r.inputPart(n)
	}
	return nil, r.expected("input, a mapping or a template that puts out JSON", n)
}

func (r reader) inputPart(n ast.Node) (input, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		given, err := r.mapping(n, "input")
		if err != nil {
			return nil, err
		}
		members := make(object, 0, len(given))
		for _, p := range given {
			value, err := r.inputPart(p.Value)
			if err != nil {
				return nil, err
			}
			members = append(members, member{p.Key, value})
		}
		return members, nil
	case *ast.SequenceNode:
		items := make(array, 0, len(n.Values))
		for _, value := range n.Values {
			item, err := r.inputPart(value)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	case *ast.StringNode, *ast.LiteralNode:
		return r.template(n, "input")
	case *ast.IntegerNode:
		return r.literal(n, n.Value)
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			return nil, r.At(n, "expected a number that JSON has, got %v", n.Value)
		}
		return r.literal(n, n.Value)
	case *ast.BoolNode:
		return r.literal(n, n.Value)
	case *ast.NullNode:
		return literal("null"), nil
	}
	return nil, r.expected("a value that JSON has", n)
}

func (r reader) literal(n ast.Node, value any) (input, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, r.At(n, "expected a value that JSON has: %v", err)
	}
	return literal(text), nil
}

func (o object) write(v *view, d *templateData, into *bytes.Buffer) error {
	into.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			into.WriteByte(',')
		}
		if err := writeString(into, m.key); err != nil {
			return err
		}
		into.WriteByte(':')
		if err := m.value.write(v, d, into); err != nil {
			return err
		}
	}
	into.WriteByte('}')
	return nil
}

func (a array) write(v *view, d *templateData, into *bytes.Buffer) error {
	into.WriteByte('[')
	for i, item := range a {
		if i > 0 {
			into.WriteByte(',')
		}
		if err := item.write(v, d, into); err != nil {
			return err
		}
	}
	into.WriteByte(']')
	return nil
}

func (l literal) write(_ *view, _ *templateData, into *bytes.Buffer) error {
	into.WriteString(string(l))
	return nil
}

func (s *snippet) write(v *view, d *templateData, into *bytes.Buffer) error {
	text, err := v.render(s, d)
	if err != nil {
		return err
	}
	return writeString(into, text)
}

// wholeObject is an input that one template produces as JSON.
type wholeObject struct{ template *snippet }

func (w wholeObject) write(v *view, d *templateData, into *bytes.Buffer) error {
	text, err := v.render(w.template, d)
	if err != nil {
		return err
	}
	var check map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &check); err != nil || check == nil {
		return w.template.fail(fmt.Errorf("expected the template to put out a JSON object, got %q", shorten(text, 80)))
	}
	return json.Compact(into, []byte(text))
}

func writeString(into *bytes.Buffer, text string) error {
	if plain(text) {
		into.WriteByte('"')
		into.WriteString(text)
		into.WriteByte('"')
		return nil
	}
	encoder := json.NewEncoder(into)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return err
	}
	into.Truncate(into.Len() - 1) // remove the newline that the encoder appends
	return nil
}

// plain reports whether a text needs no escapes in JSON.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
