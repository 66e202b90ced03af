package model

import "strings"

// DefaultWindow is the window of a model that is not known here, in tokens: how
// long a conversation with it is to be at most.
const DefaultWindow = 200_000

// compactShare is how much of a window a conversation may fill before its older
// part is summed up, in parts of a hundred. The rest is for the next answer, for
// results that come with it, and for the summary.
const compactShare = 80

// Window gives the window of a model in tokens. It is no more than the model takes.
// It is less where all of that would be dear: an agent's whole conversation is read with
// each of its calls. Claude models from 4.6 on would take 1,000,000. OpenAI's with as
// much cost twice as much above 272,000, and those with 400,000 keep what is above that
// for the answer.
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

// CompactAt gives how many tokens a conversation with a model may have before its
// older part is summed up.
func CompactAt(name string) int { return Window(name) / 100 * compactShare }
