package upstream

import (
	"encoding/json"
	"strings"
)

// ToolInput is the input of a tool call as a model wrote it, JSON or not: the tool
// tells the model what is wrong with it. Nothing at all stands for an empty object,
// but for a call that was cut off: a tool must not take that for a choice of the
// model's, so it gets the beginning of an object, which no tool accepts.
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
