package scripted

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a scenario file. Within them the YAML parser, which has no bounds of its own, needs
// little time and memory.
const (
	maxFile      = 256 << 10 // in bytes
	maxFlowDepth = 32        // nested brackets
	maxColumn    = 128       // of "- " or "? ", which may be nested on one line
	maxKeys      = 10_000    // of all mappings, because the parser compares each key with each
)

// readBounded reads r up to one byte more than allowed, so that the parser can report the size.
func readBounded(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, maxFile+1))
}

// document parses a YAML file with one document. It rejects anchors and aliases, which could
// expand without bound, and what scenarios do not use.
func document(file string, data []byte) (ast.Node, error) {
	if len(data) > maxFile {
		return nil, failAt(file, 0, "a scenario has at most %d bytes", maxFile)
	}
	if !utf8.Valid(data) {
		return nil, failAt(file, 0, "a scenario is text in UTF-8")
	}
	tokens := lexer.Tokenize(string(data))
	if err := checkTokens(file, tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, failAt(file, line(doc.Body), "a scenario is one YAML document; here a second one starts")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, failAt(file, 0, `the file is empty; expected a scenario with "steps"`)
	}
	return body, nil
}

func checkTokens(file string, tokens token.Tokens) error {
	depth, keys := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingValueType:
			keys++
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return failAt(file, t.Position.Line, "anchors, aliases and merge keys have no place in a scenario; use vars")
		case token.TagType, token.DirectiveType:
			return failAt(file, t.Position.Line, "tags and directives have no place in a scenario")
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Column > maxColumn {
				return failAt(file, t.Position.Line, "the YAML is nested too deep")
			}
		}
		if keys > maxKeys {
			return failAt(file, t.Position.Line, "a scenario has at most %d keys", maxKeys)
		}
		if depth > maxFlowDepth {
			return failAt(file, t.Position.Line, "the YAML is nested too deep")
		}
	}
	return nil
}

func syntaxError(file string, err error) error {
	var located yaml.Error
	if !errors.As(err, &located) {
		return failAt(file, 0, "%v", err)
	}
	at := 0
	if t := located.GetToken(); t != nil && t.Position != nil {
		at = t.Position.Line
	}
	return failAt(file, at, "%s", located.GetMessage())
}

// failAt returns an error at a line of a scenario. Line 0 means the whole file.
func failAt(file string, line int, format string, args ...any) error {
	if line == 0 {
		return fmt.Errorf("%s: %s", file, fmt.Sprintf(format, args...))
	}
	return fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...))
}

// line returns the first line of a node.
func line(n ast.Node) int {
	if pairs, ok := n.(*ast.MappingNode); ok && !pairs.IsFlowStyle && len(pairs.Values) > 0 {
		return line(pairs.Values[0])
	}
	if pair, ok := n.(*ast.MappingValueNode); ok {
		return line(pair.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// kind names the type of a node for people.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	}
	return "something else"
}

// pair is a key and a value of a mapping.
type pair struct {
	key   string
	line  int
	value ast.Node
}

// reader converts nodes to parts of a scenario. Its errors name file, line and what was
// expected.
type reader struct{ file string }

func (r reader) fail(n ast.Node, format string, args ...any) error {
	return failAt(r.file, line(n), format, args...)
}

func (r reader) expected(what string, n ast.Node) error {
	return r.fail(n, "expected %s, got %s", what, kind(n))
}

func (r reader) pairs(n ast.Node, what string) ([]pair, error) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, r.expected(what, n)
	}
	seen := make(map[string]bool, len(values))
	pairs := make([]pair, 0, len(values))
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return nil, r.fail(v.Key, "expected a name as the key, got %q", v.Key.String())
		}
		if seen[key.Value] {
			return nil, r.fail(key, "%q is there twice", key.Value)
		}
		seen[key.Value] = true
		pairs = append(pairs, pair{key: key.Value, line: line(key), value: v.Value})
	}
	return pairs, nil
}

// fields are the known keys of a mapping, each with a function that reads its value.
type fields map[string]func(ast.Node) error

// object reads a mapping with known keys.
func (r reader) object(n ast.Node, what string, known fields) error {
	pairs, err := r.pairs(n, what)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		read, ok := known[p.key]
		if !ok {
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			return failAt(r.file, p.line, "%s has no %q; expected one of %s", what, p.key, strings.Join(names, ", "))
		}
		if err := read(p.value); err != nil {
			return err
		}
	}
	return nil
}

// each reads a list.
func (r reader) each(n ast.Node, what string, read func(ast.Node) error) error {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return r.expected("a list of "+what, n)
	}
	for _, v := range list.Values {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// text reads a text, and the number of its first line.
func (r reader) text(n ast.Node, what string) (text string, first int, err error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, line(n), nil
	case *ast.LiteralNode:
		return n.Value.Value, line(n) + 1, nil
	}
	return "", 0, r.expected(what, n)
}

func (r reader) whole(n ast.Node, what string, least int) (int, error) {
	if number, ok := n.(*ast.IntegerNode); ok {
		switch v := number.Value.(type) {
		case int64:
			if v >= int64(least) && v <= maxNumber {
				return int(v), nil
			}
		case uint64:
			if v >= uint64(max(least, 0)) && v <= maxNumber {
				return int(v), nil
			}
		}
	}
	return 0, r.fail(n, "expected %s, a whole number from %d to %d", what, least, maxNumber)
}

// maxNumber is the largest number in a scenario.
const maxNumber = 1_000_000_000
