package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
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
type listedTool struct {
	own      string // the server's name for it
	spec     model.ToolSpec
	readOnly bool // by the word of a server that is taken at it
}

// omission is a tool that is left out, and why.
type omission struct {
	own string
	why error
}

// selectTools gives what is taken over of a list of tools that are wanted.
func (s *Server) selectTools(wanted []*sdk.Tool) (offers []listedTool, omitted []omission) {
	var own []string
	for _, t := range wanted {
		own = append(own, t.Name)
	}
	names := toolNames(s.Name, own)
	for i, t := range wanted {
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
		offers = append(offers, listedTool{
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

// propertyPattern is what providers take for the name of an argument.
var propertyPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// schemaOf gives the schema of a tool's input, as far as it has to be right for a
// provider to take it.
func schemaOf(said any) (json.RawMessage, error) {
	tidy, err := cleanedValue(said, maxDepth)
	if err != nil {
		return nil, err
	}
	schema, ok := tidy.(map[string]any)
	if !ok {
		return nil, errors.New("its input schema is no JSON object")
	}
	if kind, ok := schema["type"]; ok && kind != "object" {
		return nil, errors.New("its input is not an object")
	}
	schema["type"] = "object"
	// Providers don't take these at the top; the server checks its input anyway.
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		delete(schema, key)
	}
	if schema["properties"] == nil {
		schema["properties"] = map[string]any{} // OpenAI wants them even if there are none
	}
	if err := checkProperties(schema); err != nil {
		return nil, err
	}
	if _, err := compatibleSchema("", schema); err != nil {
		return nil, err
	}
	text, err := json.Marshal(schema)
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
	if !ok {
		return errors.New("the properties of its input schema are no JSON object")
	}
	for name := range properties {
		if !propertyPattern.MatchString(name) {
			return fmt.Errorf("providers don't take %.100q for the name of an argument", name)
		}
	}
	return nil
}

// compatibleSchema gives a schema that says the same and that providers take: Anthropic wants
// JSON Schema of the draft 2020-12, OpenAI an items for each array, and some others take
// no true for a schema. What stands at the keyword and is no schema is an error. The
// schema may be changed.
func compatibleSchema(keyword string, value any) (any, error) {
	switch value {
	case true:
		return map[string]any{}, nil
	case false:
		return false, nil
	}
	schema, ok := value.(map[string]any)
	if !ok {
		return nil, brokenUnless(false, keyword)
	}
	upgradeSchema(schema)
	for key, value := range schema {
		taken, err := compatibleAt(key, value)
		if err != nil {
			return nil, err
		}
		schema[key] = taken
	}
	kinds, _ := schema["type"].([]any)
	if _, ok := schema["items"]; !ok && (schema["type"] == "array" || slices.Contains(kinds, any("array"))) {
		schema["items"] = map[string]any{}
	}
	return schema, nil
}

// compatibleAt gives what stands at a keyword of a schema in a form that providers take.
func compatibleAt(keyword string, value any) (any, error) {
	switch keyword {
	case "additionalProperties", "unevaluatedItems", "unevaluatedProperties":
		if _, ok := value.(bool); ok {
			return value, nil
		}
		return compatibleSchema(keyword, value)
	case "items", "contains", "not", "if", "then", "else", "propertyNames", "contentSchema":
		return compatibleSchema(keyword, value)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, ok := value.([]any)
		for i, item := range list {
			taken, err := compatibleSchema(keyword, item)
			if err != nil {
				return nil, err
			}
			list[i] = taken
		}
		return value, brokenUnless(ok && len(list) > 0, keyword)
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		object, ok := value.(map[string]any)
		for name, item := range object {
			if keyword == "dependencies" && isStringSet(item) {
				continue
			}
			taken, err := compatibleSchema(keyword, item)
			if err != nil {
				return nil, err
			}
			object[name] = taken
		}
		return value, brokenUnless(ok, keyword)
	}
	return value, brokenUnless(isValidValue(keyword, value), keyword)
}

func brokenUnless(ok bool, keyword string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("its input schema breaks the draft 2020-12 at %q", keyword)
}

// isValidValue reports whether a value may stand at a keyword that is not about other schemas.
func isValidValue(keyword string, value any) bool {
	text, isText := value.(string)
	list, isList := value.([]any)
	number, isNumber := value.(float64)
	switch keyword {
	case "type":
		return slices.Contains(types, text) || isStringSet(value) && len(list) > 0 &&
			!slices.ContainsFunc(list, func(one any) bool { return !isValidValue(keyword, one) })
	case "title", "description", "format", "pattern", "contentEncoding", "contentMediaType",
		"$comment", "$id", "$schema", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor":
		return isText
	case "deprecated", "readOnly", "writeOnly", "uniqueItems":
		return value == true || value == false
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return isNumber
	case "multipleOf":
		return number > 0
	case "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties":
		return isNumber && number >= 0 && number == math.Trunc(number)
	case "enum", "examples":
		return isList
	case "required":
		return isStringSet(value)
	case "dependentRequired":
		object, ok := value.(map[string]any)
		for _, names := range object {
			ok = ok && isStringSet(names)
		}
		return ok
	}
	return true
}

// types are those that JSON Schema knows.
var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// isStringSet reports whether a value is a list of texts, none of them twice.
func isStringSet(value any) bool {
	list, ok := value.([]any)
	seen := map[string]bool{}
	for _, item := range list {
		name, isText := item.(string)
		ok = ok && isText && !seen[name]
		seen[name] = true
	}
	return ok
}

// upgradeSchema says in a schema by the draft 2020-12 what earlier ones say otherwise, and
// leaves out keywords that are null. That an argument is required, and how long a list
// of schemas may go on, is no longer said there; the server checks it anyway.
func upgradeSchema(schema map[string]any) {
	maps.DeleteFunc(schema, func(key string, value any) bool { return value == nil && key != "default" && key != "const" })
	if list, ok := schema["items"].([]any); ok {
		schema["items"] = map[string]any{}
		if rest, ok := schema["additionalItems"].(map[string]any); ok {
			schema["items"] = rest
		}
		delete(schema, "additionalItems")
		if len(list) > 0 {
			schema["prefixItems"] = list
		}
	}
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if is, ok := schema[exclusive].(bool); ok {
			delete(schema, exclusive)
			if limit, ok := schema[bound]; ok && is {
				schema[exclusive] = limit
				delete(schema, bound)
			}
		}
	}
	if _, ok := schema["required"].(bool); ok {
		delete(schema, "required")
	}
}

// cleanedValue gives a JSON value whose texts are clean. Names that would have to be cleaned
// are an error: a cleaned one would be another name.
func cleanedValue(value any, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("its input schema has more than %d levels", maxDepth)
	}
	switch v := value.(type) {
	case string:
		return cleaned(v), nil
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			tidy, err := cleanedValue(item, depth-1)
			if err != nil {
				return nil, err
			}
			list[i] = tidy
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			tidy, err := cleanedValue(item, depth-1)
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
