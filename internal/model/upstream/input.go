package upstream

import (
	"encoding/json"
	"strings"
)

// ToolInput returns the input of a tool call as the model wrote it, valid JSON or not; the tool
// reports errors in it to the model. Empty input becomes an empty object. Input that was cut
// off is different: a tool must not treat it as the model's choice. If it is empty or {}, it
// becomes the start of an object, which no tool accepts.
func ToolInput(written string, cut bool) json.RawMessage {
	switch text := strings.TrimSpace(written); {
	case cut && !json.Valid([]byte(text)), cut && text == "{}":
		if text == "" || text == "{}" {
			text = "{"
		}
		return json.RawMessage(text)
	case text == "":
		return json.RawMessage("{}")
	default:
		return json.RawMessage(text)
	}
}
