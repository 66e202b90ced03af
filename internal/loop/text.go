package loop

import (
	"encoding/json"
	"strings"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// clean makes text fit to be recorded: the run continues with exactly what is stored. Text has to
// be cleaned before it is cut, because a part of a secret is not recognised.
func (r *Run) clean(text string) string { return r.Secrets.String(validText(text)) }

func (r *Run) cleanBlock(b tree.Block) tree.Block {
	return transcript.Clean(validBlock(b), r.Secrets)
}

// validText makes text fit to be stored and sent: UTF-8 without NUL.
func validText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}

func validBlock(b tree.Block) tree.Block {
	switch b := b.(type) {
	case tree.Text:
		return tree.Text{Text: validText(b.Text)}
	case tree.Thinking:
		return tree.Thinking{Text: validText(b.Text), Signature: validText(b.Signature)}
	case tree.ToolUse:
		b.Input = json.RawMessage(validText(string(b.Input)))
		b.Name, b.ProviderID = validText(b.Name), validText(b.ProviderID)
		return b
	}
	return b
}

func partSize(b tree.Block) int {
	switch b := b.(type) {
	case tree.Text:
		return len(b.Text)
	case tree.Thinking:
		return len(b.Text) + len(b.Signature)
	case tree.ToolUse:
		return len(b.Name) + len(b.ProviderID) + len(b.Input)
	}
	return 0
}
