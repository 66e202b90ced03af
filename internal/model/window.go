package model

import "strings"

// DefaultWindow is the context window, in tokens, of models that are not listed here.
const DefaultWindow = 200_000

// compactShare is the percentage of the window that a conversation may fill before its older
// part is summarised. The rest is for the next answer, for the results that come with it, and
// for the summary.
const compactShare = 80

// Window returns the context window to use for a model, in tokens. It never exceeds the real
// window. It is smaller where the full window is expensive, because each model call reads the
// whole conversation. Claude models from 4.6 on accept 1,000,000. OpenAI's models of that size
// cost twice as much above 272,000; those with 400,000 reserve the rest for the answer.
func Window(name string) int {
	for _, known := range []struct {
		prefix string
		window int
	}{
		{"claude-", 200_000},
		{"gpt-5", 272_000},
		{"gpt-6", 272_000},
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

// CompactAt returns the number of tokens from which the older part of a conversation with a
// model is summarised.
func CompactAt(name string) int { return Window(name) / 100 * compactShare }
