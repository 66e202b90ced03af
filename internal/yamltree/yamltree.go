// Package yamltree reads YAML from its syntax tree instead of decoding it, so that every error has a
// line, unknown keys are refused, and no value is converted: 12 or null is not a string.
package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Source is what YAML comes from.
type Source struct {
	Name   string // a file, for errors
	Before int    // lines of the file before the YAML
}

// Errorf returns an error at a line of the YAML; 0: of all of it.
func (s Source) Errorf(line int, format string, args ...any) error {
	if line == 0 {
		return fmt.Errorf("%s: %s", s.Name, fmt.Sprintf(format, args...))
	}
	return fmt.Errorf("%s:%d: %s", s.Name, line+s.Before, fmt.Sprintf(format, args...))
}

// At returns an error at the first line of a node.
func (s Source) At(node ast.Node, format string, args ...any) error {
	return s.Errorf(Line(node), format, args...)
}

// WithoutMark removes the byte order mark with which some editors start a file.
func WithoutMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }

// Decode decodes a file with one document into a struct, whose fields are the only keys that are
// allowed. An empty file leaves it as it is. The error is for [Source.Syntax].
func Decode(data []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(WithoutMark(data)), yaml.Strict())
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for {
		var more any // a file may end with an empty document
		switch err := d.Decode(&more); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case more != nil:
			return errors.New("expected one YAML document")
		}
	}
}

// Parse parses a file with one document of at most so many bytes.
func (s Source) Parse(data []byte, most int) (ast.Node, error) {
	switch {
	case len(data) > most:
		return nil, s.Errorf(1, "expected at most %d bytes, got %d", most, len(data))
	case !utf8.Valid(data):
		return nil, s.Errorf(1, "expected text in UTF-8")
	}
	file, err := parser.ParseBytes(WithoutMark(data), 0)
	if err != nil {
		return nil, s.Syntax(err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, s.Errorf(1, "expected one YAML document")
	}
	return file.Docs[0].Body, nil
}

// Syntax returns the error of a parser or a decoder with its line.
func (s Source) Syntax(err error) error {
	located, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return s.Errorf(1, "%v", err)
	}
	line := 1
	if t := located.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	return s.Errorf(line, "%s", located.GetMessage())
}

// Field is a key and a value of a mapping.
type Field struct {
	Key   string
	At    ast.Node // the key
	Value ast.Node
}

// Fields are the fields of a mapping, in their order.
type Fields []Field

// Value returns the value of a key; nil if it is missing.
func (f Fields) Value(key string) ast.Node {
	if i := slices.IndexFunc(f, func(one Field) bool { return one.Key == key }); i >= 0 {
		return f[i].Value
	}
	return nil
}

// Fields returns the fields of a mapping. Only the given keys are allowed; without keys, any are. The
// parser has refused keys that are given twice.
func (s Source) Fields(node ast.Node, keys ...string) (Fields, error) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok && len(keys) == 0 {
		return nil, s.At(node, "expected a mapping, got %s", Kind(node))
	}
	if !ok {
		return nil, s.At(node, "expected a mapping with the keys %s, got %s", strings.Join(keys, ", "), Kind(node))
	}
	fields := make(Fields, 0, len(mapping.Values))
	for _, v := range mapping.Values {
		key, ok := Text(v.Key)
		switch {
		case !ok && len(keys) == 0:
			return nil, s.At(v.Key, "expected a name as the key, got %.100q", v.Key.String())
		case !ok || len(keys) > 0 && !slices.Contains(keys, key):
			return nil, s.At(v.Key, "unknown key %.100s, expected one of %s", v.Key, strings.Join(keys, ", "))
		}
		fields = append(fields, Field{key, v.Key, v.Value})
	}
	return fields, nil
}

// Text returns the text of a string, and whether the node is one.
func Text(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// Kind names the type of a value for people.
func Kind(node ast.Node) string {
	switch node.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode, nil:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode:
		return "a mapping"
	}
	return "something else (anchors, aliases and tags are not allowed)"
}

// Line returns the first line of a node; 1 if it is not known.
func Line(node ast.Node) int {
	if mapping, ok := node.(*ast.MappingNode); ok && !mapping.IsFlowStyle && len(mapping.Values) > 0 {
		return Line(mapping.Values[0].Key)
	}
	if node == nil {
		return 1
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}
