package tree

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// TestActivities: of the calls of a message the last that do something else than the next are
// put into words.
func TestActivities(t *testing.T) {
	t.Parallel()
	for calls, want := range map[string][]string{
		"":           nil,
		"a":          {"read a"},
		"aab":        {"read a", "read b"},
		"abcdefg":    {"read c", "read d", "read e", "read f", "read g"},
		"abcdezzzzz": {"read b", "read c", "read d", "read e", "read z"},
		"abab":       {"read a", "read b", "read a", "read b"},
	} {
		blocks := []Block{Text{Text: "let me see"}}
		for i, path := range calls {
			// What an activity does not show makes no difference.
			input := json.RawMessage(fmt.Sprintf(`{"path": %q, "offset": %d}`, string(path), i))
			blocks = append(blocks, ToolUse{Name: "read", Input: input})
		}
		if got := activities(blocks); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", calls, got, want)
		}
	}
}
