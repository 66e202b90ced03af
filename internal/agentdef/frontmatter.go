package agentdef

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// frontMatter is the YAML mapping at the start of a definition. It is read from the syntax
// tree, not decoded into a struct, for two reasons: every error has a line, and no value is
// converted, so that 12 or null is not a string. err is the first problem.
type frontMatter struct {
	source string
	values map[string]ast.Node
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

func parseFront(source, text string) (*frontMatter, error) {
	f := &frontMatter{source: source, values: map[string]ast.Node{}}
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, syntaxProblem(source, err)
	}
	if len(file.Docs) != 1 {
		return nil, problemAt(source, 2, "expected one YAML document, got %d", len(file.Docs))
	}
	body, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return nil, problemAt(source, 2, "expected lines of the form key: value; the keys are %s", strings.Join(keys(), ", "))
	}
	for _, field := range body.Values {
		key, ok := field.Key.(*ast.StringNode)
		if !ok || !slices.Contains(keys(), key.Value) {
			return nil, problemAt(source, lineAt(field.Key), "unknown key %s, expected one of %s", field.Key, strings.Join(keys(), ", "))
		}
		if _, twice := f.values[key.Value]; twice {
			return nil, problemAt(source, lineAt(field.Key), "key %s is given twice", key.Value)
		}
		f.values[key.Value] = field.Value
	}
	return f, nil
}

func syntaxProblem(source string, err error) error {
	syntax, ok := errors.AsType[yaml.Error](err)
	if !ok || syntax.GetToken() == nil {
		return problemAt(source, 2, "expected YAML: %v", err)
	}
	return problemAt(source, syntax.GetToken().Position.Line+1, "expected YAML: %s", syntax.GetMessage())
}

// lineAt returns the line in the file. The front matter starts on the second line.
func lineAt(node ast.Node) int {
	if token := node.GetToken(); token != nil {
		return token.Position.Line + 1
	}
	return 2
}

// fail records the first problem, at the line of a key's value.
func (f *frontMatter) fail(key, format string, args ...any) {
	line := 1
	if node, ok := f.values[key]; ok {
		line = lineAt(node)
	}
	f.failAt(line, key, format, args...)
}

func (f *frontMatter) failAt(line int, key, format string, args ...any) {
	if f.err == nil {
		f.err = problemAt(f.source, line, "%s: %s", key, fmt.Sprintf(format, args...))
	}
}

// require reports missing keys.
func (f *frontMatter) require(keys ...string) {
	for _, key := range keys {
		if _, ok := f.values[key]; !ok {
			f.fail(key, "missing, expected a string")
		}
	}
}

// text returns a string, or "" if the key is missing. check returns a problem, or "".
func (f *frontMatter) text(key string, check func(string) string) string {
	node, ok := f.values[key]
	if !ok {
		return ""
	}
	return f.scalar(key, node, check)
}

func (f *frontMatter) scalar(key string, node ast.Node, check func(string) string) string {
	var value string
	switch n := node.(type) {
	case *ast.StringNode:
		value = n.Value
	case *ast.LiteralNode:
		value = n.Value.Value
	default:
		f.failAt(lineAt(node), key, "expected a string, got %s; put it in quotes if it is a string", kind(node))
		return ""
	}
	switch wrong := check(value); {
	case wrong == "":
	case strings.Contains(wrong, fmt.Sprintf("%.100q", value)):
		f.failAt(lineAt(node), key, "%s", wrong)
	default:
		f.failAt(lineAt(node), key, "%s, got %.100q", wrong, value)
	}
	return value
}

// list returns a list of strings, or nil if the key is missing. It must not be empty and must
// not contain duplicates.
func (f *frontMatter) list(key string, check func(string) string) []string {
	node, ok := f.values[key]
	if !ok {
		return nil
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		f.fail(key, "expected a list of strings, got %s", kind(node))
		return nil
	}
	var values []string
	for _, item := range list.Values {
		value := f.scalar(key, item, check)
		if slices.Contains(values, value) {
			f.failAt(lineAt(item), key, "%.100q is given twice", value)
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
	node, ok := f.values[key]
	if !ok {
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
	node, ok := f.values[key]
	if !ok {
		return false
	}
	value, ok := node.(*ast.BoolNode)
	if !ok {
		f.fail(key, "expected true or false, got %s", kind(node))
		return false
	}
	return value.Value
}

// kind names the type of a value.
func kind(node ast.Node) string {
	switch node.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode:
		return "a mapping"
	}
	return "something else (anchors, aliases and tags are not allowed)"
}
