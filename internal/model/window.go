package model

import "strings"

// DefaultWindow is the window of a model that is not known here, in tokens: how
// long a conversation with it can be, its answer included.
const DefaultWindow = 200_000

// compactShare is how much of a window a conversation may fill before its older
// part is summed up, in parts of a hundred. The rest is for the next answer, for
// results that come with it, and for the summary.
const compactShare = 80

// Window gives the window of a model in tokens.
func Window(name string) int {
	for _, known := range []struct {
		prefix string
		window int
	}{
		{"claude-", 200_000},
		{"gpt-5", 400_000},
		{"gpt-4.1", 1_000_000},
		{"gpt-4o", 128_000},
		{"o3", 200_000},
		{"o4", 200_000},
		{"gemini-", 1_000_000},
	} {
		if strings.HasPrefix(name, known.prefix) {
			return known.window
		}
	}
	return DefaultWindow
}

// CompactAt gives how many tokens a conversation with a model may have before its
// older part is summed up.
func CompactAt(name string) int { return Window(name) / 100 * compactShare }
