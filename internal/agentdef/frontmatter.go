package agentdef

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/coppice-run/coppice/internal/yamltree"
)

// frontMatter is the YAML mapping at the start of a definition, or one inside of it. err is the
// first problem.
type frontMatter struct {
	source yamltree.Source
	fields yamltree.Fields
	err    error
	unfit  string // see Definition
}

// keys returns the keys of a definition.
func keys() []string {
	return []string{
		"name", "description", "mode", "model", "tools", "disallowed_tools", "deferred_tools", "skills", "spawns",
		"max_iterations", "timeout", "on_interrupt", "background", "reminder", "hooks", "on_complete", "fork_context", "compact_at",
		"permissions", "approvals", "background_tools", "isolation",
	}
}

func parseFront(file, text string) (*frontMatter, error) {
	source := yamltree.Source{Name: file, Before: 1} // the line with the fence
	parsed, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, source.Syntax(err)
	}
	if len(parsed.Docs) != 1 {
		return nil, source.Errorf(1, "expected one YAML document, got %d", len(parsed.Docs))
	}
	fields, err := source.Fields(parsed.Docs[0].Body, keys()...)
	if err != nil {
		return nil, err
	}
	return &frontMatter{source: source, fields: fields}, nil
}

// fail records the first problem, at the line of a key's value.
func (f *frontMatter) fail(key, format string, args ...any) {
	f.failAt(f.fields.Value(key), key, format, args...)
}

// failAt records the first problem, at a node; nil: the first line.
func (f *frontMatter) failAt(node ast.Node, key, format string, args ...any) {
	if f.err == nil {
		f.err = f.source.At(node, "%s: %s", key, fmt.Sprintf(format, args...))
	}
}

// require reports missing keys.
func (f *frontMatter) require(keys ...string) {
	for _, key := range keys {
		if f.fields.Value(key) == nil {
			f.fail(key, "missing, expected a string")
		}
	}
}

// text returns a string, or "" if the key is missing. check returns a problem, or "".
func (f *frontMatter) text(key string, check func(string) string) string {
	node := f.fields.Value(key)
	if node == nil {
		return ""
	}
	return f.scalar(key, node, check)
}

func (f *frontMatter) scalar(key string, node ast.Node, check func(string) string) string {
	value, ok := yamltree.Text(node)
	if !ok {
		f.failAt(node, key, "expected a string, got %s; put it in quotes if it is a string", yamltree.Kind(node))
		return ""
	}
	switch wrong := check(value); {
	case wrong == "":
	case strings.Contains(wrong, fmt.Sprintf("%.100q", value)):
		f.failAt(node, key, "%s", wrong)
	default:
		f.failAt(node, key, "%s, got %.100q", wrong, value)
	}
	return value
}

// list returns a list of strings, or nil if the key is missing. It must not be empty and must
// not contain duplicates.
func (f *frontMatter) list(key string, check func(string) string) []string {
	node := f.fields.Value(key)
	if node == nil {
		return nil
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		f.fail(key, "expected a list of strings, got %s", yamltree.Kind(node))
		return nil
	}
	var values []string
	for _, item := range list.Values {
		value := f.scalar(key, item, check)
		if slices.Contains(values, value) {
			f.failAt(item, key, "%.100q is given twice", value)
		}
		values = append(values, value)
	}
	if len(values) == 0 {
		f.fail(key, "expected at least one entry; omit the key to allow all")
	}
	return values
}

// number returns a whole number from 1 to high, or 0 if the key is missing.
func (f *frontMatter) number(key string, high uint64) int {
	node := f.fields.Value(key)
	if node == nil {
		return 0
	}
	if n, ok := node.(*ast.IntegerNode); ok {
		if value, ok := n.Value.(uint64); ok && value >= 1 && value <= high {
			return int(value)
		}
	}
	f.fail(key, "expected a whole number from 1 to %d, got %.100s", high, node)
	return 0
}

// flag returns a boolean; false if the key is missing.
func (f *frontMatter) flag(key string) bool {
	node := f.fields.Value(key)
	if node == nil {
		return false
	}
	value, ok := node.(*ast.BoolNode)
	if !ok {
		f.fail(key, "expected true or false, got %s", yamltree.Kind(node))
		return false
	}
	return value.Value
}
