package transcript

import (
	"encoding/json"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// Cleaner removes from text what must not be stored.
type Cleaner interface {
	String(text string) string
	// JSON does the same within a JSON text, which stays valid.
	JSON(text string) string
}

// Clean returns a block without what must not be stored.
//
// Reasoning goes back to its provider only with its signature and only unchanged. If Clean
// changes it, it drops the signature, so the reasoning is not sent back. Providers can do
// without.
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

// CleanAll cleans all blocks of the messages, in place.
func CleanAll(messages []tree.Message, c Cleaner) {
	for i := range messages {
		messages[i].Model = c.String(messages[i].Model)
		for j, b := range messages[i].Blocks {
			messages[i].Blocks[j] = Clean(b, c)
		}
	}
}
