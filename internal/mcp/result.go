package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// maxLabel bounds names, addresses and types of content that cannot be shown, in bytes.
const maxLabel = 500

// labels describes content. It removes secrets from what is cut.
type labels func(text string) string

// textOf returns the text of a result. Other content is replaced by a short description.
func (l labels) textOf(result *sdk.CallToolResult) string {
	var parts []string
	var texts []string // the text parts
	for _, c := range result.Content {
		var part string
		switch c := c.(type) {
		case *sdk.TextContent:
			part, texts = c.Text, append(texts, c.Text)
		case *sdk.ImageContent:
			part = l.standIn("image", c.MIMEType, len(c.Data))
		case *sdk.AudioContent:
			part = l.standIn("audio", c.MIMEType, len(c.Data))
		case *sdk.ResourceLink:
			part = l.linkOf(c)
		case *sdk.EmbeddedResource:
			part = l.resourceOf(c.Resource)
		default:
			part = "[content of a kind that can't be shown]"
		}
		parts = append(parts, part)
	}
	if structured := structuredOf(result.StructuredContent, texts); structured != "" {
		parts = append(parts, structured)
	}
	if text := strings.Join(parts, "\n\n"); strings.TrimSpace(text) != "" {
		return text
	}
	return "The tool gave no content."
}

func (l labels) standIn(what, kind string, size int) string {
	return fmt.Sprintf("[%s of the type %s, %d bytes, not shown]", what, l.orUnknown(kind), size)
}

func (l labels) orUnknown(text string) string {
	if text = l.oneLine(text); text == "" {
		return "unknown"
	}
	return text
}

// oneLine returns a text on one line.
func (l labels) oneLine(text string) string {
	return excerpt.Short(strings.Join(strings.Fields(l(text)), " "), maxLabel)
}

func (l labels) linkOf(link *sdk.ResourceLink) string {
	text := "[resource " + l.orUnknown(link.Name) + " at " + l.orUnknown(link.URI)
	if link.MIMEType != "" {
		text += " of the type " + l.oneLine(link.MIMEType)
	}
	if description := l.oneLine(link.Description); description != "" {
		text += ": " + description
	}
	return text + "]"
}

func (l labels) resourceOf(resource *sdk.ResourceContents) string {
	switch {
	case resource == nil:
		return "[a resource without content]"
	case resource.Blob != nil:
		return l.standIn("resource "+l.orUnknown(resource.URI), resource.MIMEType, len(resource.Blob))
	}
	return "[resource " + l.orUnknown(resource.URI) + "]\n" + resource.Text
}

// structuredOf returns structured content as JSON, unless one of the texts is equal to it.
func structuredOf(content any, texts []string) string {
	if content == nil {
		return ""
	}
	for _, text := range texts {
		var said any
		if json.Unmarshal([]byte(text), &said) == nil && reflect.DeepEqual(said, content) {
			return ""
		}
	}
	data, err := json.Marshal(content)
	if err != nil {
		return "[structured content that can't be shown]"
	}
	if isRounded(content) {
		return string(data) + roundedNote
	}
	return string(data)
}

// roundedNote follows structured content with numbers that were rounded when the session decoded them.
const roundedNote = "\n[numbers of 16 digits and more are rounded here: don't use them as ids]"

// isRounded reports whether a value contains a number of which digits may be lost.
func isRounded(value any) bool {
	const exact = 1<<53 - 1
	switch v := value.(type) {
	case float64:
		return math.Abs(v) > exact
	case []any:
		return slices.ContainsFunc(v, isRounded)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), isRounded)
	}
	return false
}
