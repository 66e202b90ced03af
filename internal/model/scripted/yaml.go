package scripted

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/coppice-run/coppice/internal/yamltree"
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
func document(file yamltree.Source, data []byte) (ast.Node, error) {
	if len(data) > maxFile {
		return nil, file.Errorf(0, "a scenario has at most %d bytes", maxFile)
	}
	if !utf8.Valid(data) {
		return nil, file.Errorf(0, "a scenario is text in UTF-8")
	}
	tokens := lexer.Tokenize(string(yamltree.WithoutMark(data)))
	if err := checkTokens(file, tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, file.Syntax(err)
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, file.At(doc.Body, "a scenario is one YAML document; here a second one starts")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, file.Errorf(0, `the file is empty; expected a scenario with "steps"`)
	}
	return body, nil
}

func checkTokens(file yamltree.Source, tokens token.Tokens) error {
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
			return file.Errorf(t.Position.Line, "anchors, aliases and merge keys have no place in a scenario; use vars")
		case token.TagType, token.DirectiveType:
			return file.Errorf(t.Position.Line, "tags and directives have no place in a scenario")
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Column > maxColumn {
				return file.Errorf(t.Position.Line, "the YAML is nested too deep")
			}
		}
		if keys > maxKeys {
			return file.Errorf(t.Position.Line, "a scenario has at most %d keys", maxKeys)
		}
		if depth > maxFlowDepth {
			return file.Errorf(t.Position.Line, "the YAML is nested too deep")
		}
	}
	return nil
}

// reader converts nodes to parts of a scenario. Its errors name file, line and what was
// expected.
type reader struct{ yamltree.Source }

func (r reader) expected(what string, n ast.Node) error {
	return r.At(n, "expected %s, got %s", what, yamltree.Kind(n))
}

// mapping reads a mapping with any keys.
func (r reader) mapping(n ast.Node, what string) (yamltree.Fields, error) {
	if _, ok := n.(*ast.MappingNode); !ok {
		return nil, r.expected(what, n)
	}
	return r.Fields(n)
}

// fields are the known keys of a mapping, each with a function that reads its value.
type fields map[string]func(ast.Node) error

// object reads a mapping with known keys.
func (r reader) object(n ast.Node, what string, known fields) error {
	given, err := r.mapping(n, what)
	if err != nil {
		return err
	}
	for _, p := range given {
		read, ok := known[p.Key]
		if !ok {
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			return r.At(p.At, "%s has no %q; expected one of %s", what, p.Key, strings.Join(names, ", "))
		}
		if err := read(p.Value); err != nil {
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
	text, ok := yamltree.Text(n)
	if !ok {
		return "", 0, r.expected(what, n)
	}
	first = yamltree.Line(n)
	if _, block := n.(*ast.LiteralNode); block {
		first++
	}
	return text, first, nil
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
	return 0, r.At(n, "expected %s, a whole number from %d to %d", what, least, maxNumber)
}

// maxNumber is the largest number in a scenario.
const maxNumber = 1_000_000_000
