package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"
)

func TestToolNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for _, c := range []struct{ own, want []string }{
		{[]string{"read", "git.push"}, []string{"mcp__s__read", "mcp__s__git_push"}},
		{[]string{"a.b", "a_b", "a b"}, []string{"mcp__s__a_b_df9f2a22", "mcp__s__a_b", "mcp__s__a_b_c8687a08"}},
		{[]string{"a.b", "a b"}, []string{"mcp__s__a_b_df9f2a22", "mcp__s__a_b_c8687a08"}},
		{[]string{"a", "a", ""}, []string{"mcp__s__a", "", ""}},
		{[]string{"é"}, []string{"mcp__s___"}},
		{[]string{long, long, long + "y"}, []string{"mcp__s__" + long[:47] + "_" + "7de2d84f", "", "mcp__s__" + long[:47] + "_" + "7e10d1d6"}},
	} {
		got := toolNames("s", c.own)
		for i, name := range got {
			want := c.want[i]
			if name != want && !(len(want) > 9 && len(name) == len(want) && strings.HasPrefix(name, want[:len(want)-8]) && regexp.MustCompile(`_[0-9a-f]{8}$`).MatchString(name)) {
				t.Errorf("%q: %q, want %q", c.own[i], name, want)
			}
		}
	}
}

// Whatever a server calls its tools: names are what providers take, no two are the
// same, and a tool has the same name in whatever order the tools come.
func TestToolNamesAreSound(t *testing.T) {
	t.Parallel()
	taken := regexp.MustCompile(`^mcp__server__[A-Za-z0-9_-]{1,51}$`)
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.SliceOfDistinct(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a.\- _]{1,4}`), rapid.StringMatching(`a{40,60}[._]?`)), rapid.ID[string]).Draw(t, "own")
		names := toolNames("server", own)
		given := map[string]string{}
		for i, name := range names {
			if name == "" {
				continue
			}
			if !taken.MatchString(name) {
				t.Fatalf("%q is named %q", own[i], name)
			}
			if other, ok := given[name]; ok {
				t.Fatalf("%q and %q are both named %s", own[i], other, name)
			}
			given[name] = own[i]
		}
		turned := slices.Clone(own)
		slices.Reverse(turned)
		for i, name := range toolNames("server", turned) {
			if name != names[len(names)-1-i] {
				t.Fatalf("%q is named %s and %s", turned[i], names[len(names)-1-i], name)
			}
		}
	})
}

func object(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		panic(err)
	}
	return value
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                               `{"properties":{},"type":"object"}`,
		`{"type":"object"}`:                `{"properties":{},"type":"object"}`,
		`{"properties":null,"title":null}`: `{"properties":{},"type":"object"}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"x\u0000\u001b[1m\u202e y"},"b":false},"required":["a"]}`://
		`{"properties":{"a":{"description":"x[1m y","type":"string"},"b":false},"required":["a"],"type":"object"}`,
		`{"type":"object","oneOf":[{}],"anyOf":[{}],"allOf":[{}],"enum":[{}],"not":{}}`: `{"properties":{},"type":"object"}`,
		`null`:                       "! its input schema is no JSON object",
		`[]`:                         "! its input schema is no JSON object",
		`true`:                       "! its input schema is no JSON object",
		`{"type":"array"}`:           "! its input is not an object",
		`{"type":["object","null"]}`: "! its input is not an object",
		`{"properties":[]}`:          "! the properties of its input schema are no JSON object",
		`{"properties":{"a":7}}`:     `! its input schema breaks the draft 2020-12 at "properties"`,
		`{"properties":{"a b":{}}}`:  `! providers don't take "a b" for the name of an argument`,
		`{"$defs":{"\u0000":{}}}`:    "! a name in its input schema can't be shown",
		`{"x":"` + strings.Repeat("x", maxSchema) + `"}`:                  "! its input schema has 32",
		`{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "! its input schema has more than 30 levels",
	} {
		if said := schemaSaid(text); said != want && !(strings.HasPrefix(want, "!") && strings.HasPrefix(said, want)) {
			t.Errorf("%.200s: %s, want %s", text, said, want)
		}
	}
	if _, err := schemaOf(nil, newScrubber(nil)); err == nil {
		t.Error("no schema: no error")
	}
}

// schemaSaid is the schema that is made of one, or an error behind a "!".
func schemaSaid(text string) string {
	got, err := schemaOf(object(text), newScrubber(nil))
	if err != nil {
		return "! " + err.Error()
	}
	return string(got)
}

// What a provider would refuse is written otherwise where that says the same, wherever
// in a schema it stands, and only where it is a schema.
func TestSchemasOfArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type":"array"}`:                                  `{"items":{},"type":"array"}`,
		`{"type":["array","null"]}`:                         `{"items":{},"type":["array","null"]}`,
		`{"type":"array","items":true}`:                     `{"items":{},"type":"array"}`,
		`{"type":"array","items":{"type":"array"}}`:         `{"items":{"items":{},"type":"array"},"type":"array"}`,
		`{"type":"array","items":[{"type":"array"},true]}`:  `{"items":{},"prefixItems":[{"items":{},"type":"array"},{}],"type":"array"}`,
		`{"items":[{}],"additionalItems":{"type":"array"}}`: `{"items":{"items":{},"type":"array"},"prefixItems":[{}]}`,
		`{"items":[],"additionalItems":false}`:              `{"items":{}}`,
		`true`:                                              `{}`,
		`{"anyOf":[{"type":"array"},{"type":"null"}]}`:      `{"anyOf":[{"items":{},"type":"array"},{"type":"null"}]}`,
		`{"patternProperties":{"^x":{"type":"array"}},"additionalProperties":true}`: `{"additionalProperties":true,"patternProperties":{"^x":{"items":{},"type":"array"}}}`,
		`{"additionalProperties":{"type":"array"}}`:                                 `{"additionalProperties":{"items":{},"type":"array"}}`,
		`{"properties":{"type":{"type":"array"},"items":{},"required":{}}}`:         `{"properties":{"items":{},"required":{},"type":{"items":{},"type":"array"}}}`,
		`{"default":{"type":"array"},"enum":[{"type":"array"}],"examples":[null]}`:  `{"default":{"type":"array"},"enum":[{"type":"array"}],"examples":[null]}`,
		`{"default":null,"const":null,"description":null,"required":null}`:          `{"const":null,"default":null}`,
		`{"minimum":1,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":true}`: `{"exclusiveMaximum":9,"exclusiveMinimum":1}`,
		`{"minimum":1,"exclusiveMinimum":false,"exclusiveMaximum":true}`:            `{"minimum":1}`,
		`{"type":"string","required":true,"nullable":true}`:                         `{"nullable":true,"type":"string"}`,
		`{"dependencies":{"a":["b"],"c":{"type":"array"}}}`:                         `{"dependencies":{"a":["b"],"c":{"items":{},"type":"array"}}}`,
	} {
		whole := `{"properties":{"a":` + want + `},"type":"object"}`
		if said := schemaSaid(`{"properties":{"a":` + text + `}}`); said != whole {
			t.Errorf("%s: %s, want %s", text, said, whole)
		}
	}
}

// What Anthropic does not take for JSON Schema of the draft 2020-12 is left out.
func TestSchemasThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"type":"int"}`, `{"type":"any"}`, `{"type":["string","string"]}`, `{"type":[]}`, `{"type":[7]}`, `{"type":{}}`,
		`7`, `"string"`, `[]`, `{"items":7}`, `{"anyOf":[]}`, `{"anyOf":{}}`, `{"anyOf":["string"]}`, `{"not":[]}`,
		`{"additionalProperties":"no"}`, `{"properties":{"b":"string"}}`, `{"properties":[]}`, `{"$defs":{"b":{"type":"b"}}}`,
		`{"required":"b"}`, `{"required":[1]}`, `{"required":["b","b"]}`, `{"dependentRequired":{"b":"c"}}`, `{"dependencies":{"b":[7]}}`,
		`{"enum":"b"}`, `{"examples":"b"}`, `{"description":["b"]}`, `{"pattern":7}`, `{"uniqueItems":"yes"}`,
		`{"minimum":"1"}`, `{"exclusiveMinimum":"1"}`, `{"multipleOf":0}`, `{"minLength":-1}`, `{"maxItems":1.5}`, `{"maxItems":"1"}`,
	} {
		for _, whole := range []string{`{"properties":{"a":` + text + `}}`, `{"$defs":{"x":{"not":` + text + `}}}`} {
			if said := schemaSaid(whole); !strings.HasPrefix(said, "! its input schema breaks the draft 2020-12 at ") {
				t.Errorf("%s: %s", whole, said)
			}
		}
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	schema := object(`{}`)
	l := toolList{server: newServer(Server{Name: "s"}, nil, nil, quick())}
	l.add([]*sdk.Tool{
		{Name: "get_a", Description: "Gets\r\na\x00\x1b[31m\xff \u200b.", InputSchema: schema},
		{Name: "get_b", Title: "B", InputSchema: schema},
		{Name: "get_c", InputSchema: schema, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		{Name: "get_d", InputSchema: "no"},
		{Name: "plain", Description: strings.Repeat("é", maxDescription), InputSchema: schema},
		nil,
	})
	offers, omitted := l.finish(l.result().Tools)
	var got []string
	for _, o := range offers {
		if o.readOnly || !utf8.ValidString(o.spec.Description) || len(o.spec.Description) > maxDescription+3 {
			t.Errorf("%+v", o)
		}
		got = append(got, fmt.Sprintf("%s: %.20s", o.spec.Name, o.spec.Description))
	}
	want := []string{"mcp__s__get_a: Gets\na[31m\ufffd .", "mcp__s__get_b: B", "mcp__s__get_c: The tool get_c of th", "mcp__s__plain: " + strings.Repeat("é", 20)}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if len(omitted) != 1 || omitted[0].own != "get_d" {
		t.Errorf("omitted %v", omitted)
	}
}

// A server that tells its token in what it says of its tools tells it neither to models nor to the log.
func TestSecretsInTools(t *testing.T) {
	t.Parallel()
	server := newTestServer()
	long := strings.Repeat("x", 98) // the token behind it is cut where it is logged
	for name, schema := range map[string]string{
		"described":   `{"type":"object","properties":{"key":{"type":"string","description":"such as ` + token + `","default":"` + token + `","enum":["Bearer ` + token + `"]}}}`,
		"named":       `{"type":"object","properties":{"` + token + `":{}}}`,
		"of_" + token: `{"type":"object"}`,
		long + token:  `{"type":"object"}`,
	} {
		addRaw(server, &sdk.Tool{Name: name, Description: "Authorized by " + token + ".", InputSchema: json.RawMessage(schema)},
			func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("") })
	}
	k := keep(t, quick(), web(overHTTP(t, server, nil).URL))
	spec := k.tool("mcp__s__described").Spec()
	if spec.Description != "Authorized by [redacted]." {
		t.Errorf("the description is %q", spec.Description)
	}
	want := `{"properties":{"key":{"default":"[redacted]","description":"such as [redacted]","enum":["[redacted]"],"type":"string"}},"type":"object"}`
	if string(spec.Schema) != want {
		t.Errorf("the schema is %s", spec.Schema)
	}
	tools, _ := k.Tools(t.Context(), all)
	for _, one := range tools {
		if spec := one.Spec(); strings.Contains(spec.Name+spec.Description+string(spec.Schema), token[:6]) {
			t.Errorf("a tool has the token: %+v", spec)
		}
	}
	if log := k.log.String(); strings.Contains(log, token[:6]) || strings.Count(log, "contains a secret") != 3 {
		t.Errorf("the log:\n%s", log)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result sdk.CallToolResult
		want   string
	}{
		{sdk.CallToolResult{}, "The tool gave no content."},
		{sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a"}, &sdk.TextContent{Text: "b"}}}, "a\n\nb"},
		{sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: make([]byte, 7)}, &sdk.AudioContent{}}},
			"[image of the type image/png, 7 bytes, not shown]\n\n[audio of the type unknown, 0 bytes, not shown]"},
		{sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{Name: "a\nb", URI: "file:///x", MIMEType: "text/plain", Description: "d"}}},
			"[resource a b at file:///x of the type text/plain: d]"},
		{sdk.CallToolResult{Content: []sdk.Content{
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", Text: "t"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", Blob: []byte("bb")}}, &sdk.EmbeddedResource{},
		}}, "[resource u]\nt\n\n[resource u of the type unknown, 2 bytes, not shown]\n\n[a resource without content]"},
		{sdk.CallToolResult{StructuredContent: object(`{"b":1,"a":[2]}`)}, `{"a":[2],"b":1}`},
		{sdk.CallToolResult{StructuredContent: object(`{"a":1}`), Content: []sdk.Content{&sdk.TextContent{Text: `{ "a": 1 }`}}}, `{ "a": 1 }`},
		{sdk.CallToolResult{StructuredContent: object(`{"a":1}`), Content: []sdk.Content{&sdk.TextContent{Text: "one"}}}, "one\n\n{\"a\":1}"},
		{sdk.CallToolResult{StructuredContent: object(`{"ids":[9007199254740991,-7]}`)}, `{"ids":[9007199254740991,-7]}`},
		{sdk.CallToolResult{StructuredContent: object(`{"ids":[1234567890123456789]}`)}, `{"ids":[1234567890123456800]}` + "\n[numbers of 16 digits and more are rounded here: don't use them as ids]"},
		{sdk.CallToolResult{StructuredContent: object(`{"ids":[-9007199254740993]}`)}, `{"ids":[-9007199254740992]}` + "\n[numbers of 16 digits and more are rounded here: don't use them as ids]"},
	} {
		if got := labels(cleaned).textOf(&c.result); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
