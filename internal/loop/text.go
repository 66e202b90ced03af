package loop

import (
	"encoding/json"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// clean makes text fit to be recorded: the run continues with exactly what is stored. Text has to
// be cleaned before it is cut, because a part of a secret is not recognised.
func (r *Run) clean(text string) string { return r.Secrets.String(excerpt.Valid(text)) }

func (r *Run) cleanBlock(b tree.Block) tree.Block {
	return transcript.Clean(validBlock(b), r.Secrets)
}

func validBlock(b tree.Block) tree.Block {
	switch b := b.(type) {
	case tree.Text:
		return tree.Text{Text: excerpt.Valid(b.Text)}
	case tree.Thinking:
		return tree.Thinking{Text: excerpt.Valid(b.Text), Signature: excerpt.Valid(b.Signature)}
	case tree.ToolUse:
		b.Input = json.RawMessage(excerpt.Valid(string(b.Input)))
		b.Name, b.ProviderID = excerpt.Valid(b.Name), excerpt.Valid(b.ProviderID)
		return b
	}
	return b
}
