package loop

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// leaves is what the run leaves behind, fit to be stored.
func (r *runner) leaves(ctx context.Context) string {
	if r.Leaves == nil {
		return ""
	}
	return valid(r.Leaves(ctx))
}

// tell adds a line at the end of an answer, if there is room for it.
func (r *runner) tell(answer *tree.Message, line string) {
	if line == "" {
		return
	}
	if last := len(answer.Blocks) - 1; last >= 0 {
		text, ok := answer.Blocks[last].(tree.Text)
		if longer := text.Text + "\n\n" + line; ok && len(longer) <= r.MaxPart {
			answer.Blocks[last] = tree.Text{Text: longer}
			return
		}
	}
	if len(answer.Blocks) < tree.MaxBlocks && len(line) <= r.MaxPart {
		answer.Blocks = append(answer.Blocks, tree.Text{Text: line})
	}
}
