package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/model"
)

// Bounds of what a server says of its tools: a model is told all of it with every
// call, and a provider refuses the whole call for one thing that it does not take.
const (
	maxTools       = 500
	maxDescription = 4 << 10  // bytes
	maxSchema      = 32 << 10 // bytes
	maxDepth       = 30       // of values in values
)

// offer is a tool as its server describes it.
type offer struct {
	own      string // the server's name for it
	spec     model.ToolSpec
	readOnly bool // by the word of a server that is taken at it
}

// omission is a tool that is left out, and why.
type omission struct {
	own string
	why error
}

// takeOver gives what is taken over of a list of tools.
func (s *Server) takeOver(listed []*sdk.Tool) (offers []offer, omitted []omission) {
	var own []string
	var taken []*sdk.Tool
	for _, t := range listed {
		if s.wants(t.Name) {
			own, taken = append(own, t.Name), append(taken, t)
		}
	}
	names := toolNames(s.Name, own)
	for i, t := range taken {
		schema, err := schemaOf(t.InputSchema)
		switch {
		case names[i] == "":
			err = errors.New("it has the name of another tool, or none")
		case len(offers) == maxTools:
			err = fmt.Errorf("the server has more than %d tools", maxTools)
		}
		if err != nil {
			omitted = append(omitted, omission{t.Name, err})
			continue
		}
		offers = append(offers, offer{
			own: t.Name, readOnly: s.TrustAnnotations && t.Annotations != nil && t.Annotations.ReadOnlyHint,
			spec: model.ToolSpec{Name: names[i], Description: s.describe(t), Schema: schema},
		})
	}
	return offers, omitted
}

// wants reports whether the configuration takes a tool over.
func (s *Server) wants(own string) bool {
	return s.Tools == nil || slices.ContainsFunc(s.Tools, func(glob string) bool {
		ok, err := path.Match(glob, own)
		return ok && err == nil
	})
}

// describe gives the description of a tool.
func (s *Server) describe(t *sdk.Tool) string {
	for _, text := range []string{t.Description, t.Title} {
		if text = strings.TrimSpace(cleaned(text)); text != "" {
			return excerpt.Short(text, maxDescription)
		}
	}
	return fmt.Sprintf("The tool %s of the MCP server %s.", excerpt.Short(cleaned(t.Name), 100), s.Name)
}

// cleaned gives a text in valid UTF-8, without control characters but for line feeds
// and tabs, and without what changes how a text looks and is not seen itself.
func cleaned(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d') {
			return -1
		}
		return r
	}, text)
}

// propertyForm is what providers take for the name of an argument.
var propertyForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// schemaOf gives the schema of a tool's input, as far as it has to be right for a
// provider to take it.
func schemaOf(said any) (json.RawMessage, error) {
	schema, ok := said.(map[string]any)
	if !ok {
		return nil, errors.New("its input schema is no JSON object")
	}
	if kind, ok := schema["type"]; ok && kind != "object" {
		return nil, errors.New("its input is not an object")
	}
	schema["type"] = "object"
	// Providers don't take these at the top; the server checks its input anyway.
	for _, key := range []string{"oneOf", "anyOf", "allOf"} {
		delete(schema, key)
	}
	if err := checkProperties(schema); err != nil {
		return nil, err
	}
	tidy, err := tidied(schema, maxDepth)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(tidy)
	if err != nil {
		return nil, fmt.Errorf("its input schema: %w", err)
	}
	if len(text) > maxSchema {
		return nil, fmt.Errorf("its input schema has %d bytes, the bound is %d", len(text), maxSchema)
	}
	return text, nil
}

func checkProperties(schema map[string]any) error {
	properties, ok := schema["properties"].(map[string]any)
	if !ok && schema["properties"] != nil {
		return errors.New("the properties of its input schema are no JSON object")
	}
	for name, property := range properties {
		switch property.(type) {
		case map[string]any, bool:
		default:
			return errors.New("a property of its input schema is no schema")
		}
		if !propertyForm.MatchString(name) {
			return fmt.Errorf("providers don't take %.100q for the name of an argument", name)
		}
	}
	required, ok := schema["required"].([]any)
	if !ok && schema["required"] != nil {
		return errors.New("what its input schema requires is no list")
	}
	for _, name := range required {
		if _, ok := name.(string); !ok {
			return errors.New("what its input schema requires is no list of names")
		}
	}
	return nil
}

// tidied gives a JSON value whose texts are clean. Names that would have to be cleaned
// are an error: a cleaned one would be another name.
func tidied(value any, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("its input schema has more than %d levels", maxDepth)
	}
	switch v := value.(type) {
	case string:
		return cleaned(v), nil
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			tidy, err := tidied(item, depth-1)
			if err != nil {
				return nil, err
			}
			list[i] = tidy
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			tidy, err := tidied(item, depth-1)
			switch {
			case err != nil:
				return nil, err
			case cleaned(key) != key:
				return nil, errors.New("a name in its input schema can't be shown")
			}
			object[key] = tidy
		}
		return object, nil
	}
	return value, nil
}
