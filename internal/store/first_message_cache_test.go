package store

import (
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

// TestPromptsOfManyRunsAreCached: all runs that wait in memory have their prompts there too, unless
// they are long.
func TestPromptsOfManyRunsAreCached(t *testing.T) {
	t.Parallel()
	cache, session := newFirstMessageCache(), tree.SessionID{1}
	prompt := func(n, size int) *tree.Message {
		task := tree.TaskID{byte(n), byte(n >> 8), byte(n >> 16)}
		return &tree.Message{Task: task, Ordinal: 1, Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: strings.Repeat("x", size)}}}
	}
	const short = 200
	for n := range maxMirrored {
		cache.put(session, []*tree.Message{prompt(n, short)})
	}
	if len(cache.messages) != maxMirrored || cache.bytes != maxMirrored*(cachedRowBytes+short) {
		t.Fatalf("of %d prompts %d are cached, of %d bytes", maxMirrored, len(cache.messages), cache.bytes)
	}
	cache.put(session, []*tree.Message{prompt(maxMirrored, maxFirstMessageBytes)})
	if len(cache.messages) != 0 || cache.bytes != 0 {
		t.Errorf("with a prompt that is larger than the cache %d are cached, of %d bytes", len(cache.messages), cache.bytes)
	}
}
