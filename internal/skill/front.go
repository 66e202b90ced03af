package skill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of the front matter. The parser, which has no bounds of its own, needs time that grows
// with the square of the number of tokens.
const (
	maxFront  = 8 << 10 // in bytes
	maxTokens = 1000
)

// stringFields returns the values of some keys of the front matter; other keys are ignored. It
// reads the syntax tree and decodes nothing, because a few anchors could expand to more than
// can ever be decoded.
func stringFields(front string, keys ...string) (map[string]string, error) {
	if len(front) > maxFront {
		return nil, fmt.Errorf("the front matter has %d bytes, at most %d are read", len(front), maxFront)
	}
	tokens := lexer.Tokenize(front)
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("the front matter has %d tokens of YAML, at most %d are read", len(tokens), maxTokens)
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	found := map[string]string{}
	for _, doc := range file.Docs {
		body, ok := doc.Body.(*ast.MappingNode)
		if !ok {
			return nil, fmt.Errorf("expected lines of the form key: value in the front matter")
		}
		for _, field := range body.Values {
			key := field.Key.GetToken().Value
			if !slices.Contains(keys, key) {
				continue
			}
			if found[key], err = stringValue(field.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return found, nil
}

func stringValue(node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", nil
	}
	return "", fmt.Errorf("expected a text, got %s", strings.ToLower(node.Type().String()))
}
