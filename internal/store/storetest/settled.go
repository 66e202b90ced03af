package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// settledCalls: the end of a child closes the call that waits for it, as every read says, also after
// a restart and after the child has begun another run; calls of other children stay open.
func settledCalls(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "hello")
	w := b.claim(id, root)
	message := w.calls("task", "task", "task")
	first, second, third := w.spawns(message, 1, false), w.spawns(message, 2, false), w.spawns(message, 3, false)
	w.parks()
	b.claim(id, first).answers("found")
	b.waitsFor(id, root, 2, 3)
	b.must(id, tree.Send{Task: first, Message: say("look again")})
	b.claim(id, first)
	b.waitsFor(id, root, 2, 3)
	b.claim(id, second).fails(tree.ReasonProviderError, "the model is gone")
	b.waitsFor(id, root, 3)
	b.claim(id, third).answers("found, too")
	b.waitsFor(id, root)
	for range 2 {
		messages := must[[]tree.Message](t)(b.Transcript(t.Context(), id, root, 0, 0))
		results := messages[len(messages)-1].Blocks
		for n, want := range []struct {
			text    string
			isError bool
		}{{"found", false}, {"the model is gone", true}, {"found, too", false}} {
			result := results[n].(tree.ToolResult)
			eq(t, "whether a child has failed", result.IsError, want.isError)
			if !strings.Contains(result.Text, fmt.Sprintf("%q", want.text)) {
				t.Errorf("the result is %s, not %q", result.Text, want.text)
			}
		}
		b.restart()
	}
}

// waitsFor checks which calls of a task are open, before and after a restart.
func (b *bundle) waitsFor(id tree.SessionID, task tree.TaskID, blocks ...int) {
	b.t.Helper()
	for range 2 {
		open := must[*store.Conversation](b.t)(b.Conversation(b.t.Context(), "acme", id, task)).Open
		eq(b.t, "how many calls are open", len(open), len(blocks))
		for n, call := range open {
			eq(b.t, "an open call", call.Ref.Block, blocks[n])
		}
		b.restart()
	}
}
