package transcript

import (
	"encoding/json"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// Cleaner takes out of text what must not be kept.
type Cleaner interface {
	String(text string) string
	// JSON does it within a JSON text, which stays one.
	JSON(text string) string
}

// Clean gives a block without what must not be kept.
//
// Reasoning goes back to its provider with a seal, and only as it was: what is
// changed loses its seal, and with it its way back. Providers do without.
func Clean(b tree.Block, c Cleaner) tree.Block {
	switch b := b.(type) {
	case tree.Text:
		return tree.Text{Text: c.String(b.Text)}
	case tree.Thinking:
		clean := tree.Thinking{Text: c.String(b.Text), Signature: c.String(b.Signature)}
		if clean != b {
			clean.Signature = ""
		}
		return clean
	case tree.ToolUse:
		b.Name, b.ProviderID = c.String(b.Name), c.String(b.ProviderID)
		b.Input = json.RawMessage(c.JSON(string(b.Input)))
		return b
	case tree.ToolResult:
		b.Text, b.ProviderID = c.String(b.Text), c.String(b.ProviderID)
		return b
	case tree.Attachment:
		b.Name, b.URL, b.MediaType = c.String(b.Name), c.String(b.URL), c.String(b.MediaType)
		if strings.HasPrefix(b.MediaType, "text/") {
			b.Data = []byte(c.String(string(b.Data)))
		}
		return b
	}
	return b
}

// CleanAll does it to all blocks of messages.
func CleanAll(messages []tree.Message, c Cleaner) {
	for i := range messages {
		messages[i].Model = c.String(messages[i].Model)
		for j, b := range messages[i].Blocks {
			messages[i].Blocks[j] = Clean(b, c)
		}
	}
}
