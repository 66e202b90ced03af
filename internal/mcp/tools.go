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

// Bounds of a server's tool descriptions. Each model call contains all of them, and a provider
// refuses the whole call if it does not accept one.
const (
	maxTools       = 500
	maxDescription = 4 << 10  // in bytes
	maxSchema      = 32 << 10 // in bytes
	maxDepth       = 30       // of nested values
)

// listedTool is a tool as its server describes it.
type listedTool struct {
	own      string // the server's name for it
	spec     model.ToolSpec
	readOnly bool // according to a trusted server
}

// omission is a tool that is left out, with the reason.
type omission struct {
	own string
	why error
}

// offer returns what is used of a tool, except for the name that models know. It does not share
// memory with the tool.
func (s *server) offer(t *sdk.Tool) (listedTool, error) {
	if s.scrubber.has(t.Name) {
		return listedTool{}, errors.New("its name contains a secret")
	}
	schema, err := schemaOf(t.InputSchema, s.scrubber)
	if err != nil {
		return listedTool{}, err
	}
	return listedTool{
		own: strings.Clone(t.Name), readOnly: s.TrustAnnotations && t.Annotations != nil && t.Annotations.ReadOnlyHint,
		spec: model.ToolSpec{Description: strings.Clone(s.describe(t)), Schema: schema},
	}, nil
}

// wants reports whether the configuration includes a tool.
func (s *Server) wants(own string) bool {
	return s.Tools == nil || slices.ContainsFunc(s.Tools, func(glob string) bool {
		ok, err := path.Match(glob, own)
		return ok && err == nil
	})
}

// describe returns the description of a tool, whose name contains no secret.
func (s *server) describe(t *sdk.Tool) string {
	for _, text := range []string{t.Description, t.Title} {
		if text = strings.TrimSpace(s.scrubber.clean(text)); text != "" {
			return excerpt.Short(text, maxDescription)
		}
	}
	return fmt.Sprintf("The tool %s of the MCP server %s.", excerpt.Short(cleaned(t.Name), 100), s.Name)
}

// cleaned returns a text in valid UTF-8 without control characters, except line feeds and tabs,
// and without invisible characters that change how a text looks.
func cleaned(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d') {
			return -1
		}
		return r
	}, text)
}

// propertyPattern matches the argument names that providers accept.
var propertyPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// schemaOf returns the input schema of a tool, without secrets. It checks what providers check.
func schemaOf(said any, secrets scrubber) (json.RawMessage, error) {
	tidy, err := cleanedValue(said, secrets, maxDepth)
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
	// Providers do not accept these at the top level; the server validates its input anyway.
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		delete(schema, key)
	}
	if schema["properties"] == nil {
		schema["properties"] = map[string]any{} // OpenAI requires it
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

// compatibleSchema returns an equivalent schema that providers accept. Anthropic requires JSON
// Schema draft 2020-12, OpenAI requires items for each array, and some others do not accept
// true as a schema. It fails if the value at the keyword is not a schema. It may modify the
// value.
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

// compatibleAt converts the value at a keyword of a schema to a form that providers accept.
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

// isValidValue reports whether a value is valid at a keyword that contains no schemas.
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

// types are the types of JSON Schema.
var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// isStringSet reports whether a value is a list of different strings.
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

// upgradeSchema converts keywords of earlier drafts to draft 2020-12, and removes keywords that
// are null. Two constraints are lost: that an argument is required, and the maximum length of a
// list of schemas. The server checks them anyway.
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

// cleanedValue returns a JSON value with cleaned texts without secrets. Names that would need
// cleaning are an error, because they would become different names.
func cleanedValue(value any, secrets scrubber, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("its input schema has more than %d levels", maxDepth)
	}
	switch v := value.(type) {
	case string:
		return secrets.clean(v), nil
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			tidy, err := cleanedValue(item, secrets, depth-1)
			if err != nil {
				return nil, err
			}
			list[i] = tidy
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			tidy, err := cleanedValue(item, secrets, depth-1)
			switch {
			case err != nil:
				return nil, err
			case secrets.has(key):
				return nil, errors.New("a name in its input schema contains a secret")
			case cleaned(key) != key:
				return nil, errors.New("a name in its input schema can't be shown")
			}
			object[key] = tidy
		}
		return object, nil
	}
	return value, nil
}
