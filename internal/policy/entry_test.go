package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEntries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entry, tool string
		names       bool
	}{
		{"read", "read", true},
		{"read", "reader", false},
		{"mcp__git__push", "mcp__git__push", true},
		{"mcp__git__push", "mcp__git__pushed", false},
		{"mcp__git__*", "mcp__git__push", true},
		{"mcp__git__*", "mcp__github__push", false},
		{"mcp__git__get_*", "mcp__git__get_x", true},
		{"mcp__git__get_*", "mcp__git__put_x", false},
		{"mcp__git", "mcp__git__push", true},
		{"mcp__git", "mcp__github__push", false},
		{"mcp__*", "mcp__git__push", true},
		{"mcp__*", "read", false},
	} {
		if got := EntryMatches(c.entry, c.tool); got != c.names {
			t.Errorf("%s names %s: %t", c.entry, c.tool, got)
		}
	}
	for entry, want := range map[string]string{
		"read": "", "mcp__git": "", "mcp__git__*": "", "mcp__**": "",
		"": "expected the name", "re*": "digits, _ and -", "mcp__a b": "digits, _, - and *", "mcp__***": "two *",
		strings.Repeat("x", 129): "1 to 128",
	} {
		if err := CheckEntry(entry); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", entry, err, want)
		}
	}
}

// Two entries meet if any tool is named by both: drawn from a small alphabet, what
// both name is found by looking at all short texts.
func TestMeet(t *testing.T) {
	t.Parallel()
	var tools []string
	for _, x := range []string{"", "a", "b", "aa", "ab", "ba", "bb", "aab", "aba", "baa", "abb", "bab", "bba", "aaa", "bbb"} {
		tools = append(tools, MCPPrefix+"s__"+x)
	}
	entry := rapid.StringMatching(`mcp__(s|s__)?[ab*]{0,3}`).Filter(func(s string) bool { return !strings.Contains(s, "***") })
	rapid.Check(t, func(t *rapid.T) {
		a, b := entry.Draw(t, "a"), entry.Draw(t, "b")
		if EntriesOverlap(a, b) != EntriesOverlap(b, a) {
			t.Fatalf("%s meets %s: %t, and the other way round not", a, b, EntriesOverlap(a, b))
		}
		for _, tool := range tools {
			if EntryMatches(a, tool) && EntryMatches(b, tool) && !EntriesOverlap(a, b) {
				t.Fatalf("%s and %s both name %s and do not meet", a, b, tool)
			}
		}
	})
	for _, apart := range [][2]string{{"mcp__a__*", "mcp__b"}, {"mcp__a__x*", "mcp__a__y"}, {"mcp__*", "read"}, {"read", "write"}} {
		if EntriesOverlap(apart[0], apart[1]) {
			t.Errorf("%s meets %s", apart[0], apart[1])
		}
	}
}
