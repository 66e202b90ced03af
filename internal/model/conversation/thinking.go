package conversation

import (
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// RejectedThinking is the reasoning that a provider has refused to take back. The zero value is
// nothing.
type RejectedThinking struct {
	UpTo string // the signature of the last of it
	All  bool   // and whatever comes after it, since some of that was refused too
}

// Add is what is forgotten once a request was refused for reasoning of which this is the
// last signature; news tells whether that is more.
func (f RejectedThinking) Add(last string) (more RejectedThinking, news bool) {
	if f.All || last == "" || last == f.UpTo {
		return f, false
	}
	return RejectedThinking{UpTo: last, All: f.UpTo != ""}, true
}

// Strip gives messages without the signatures of what is forgotten, so that it can't go back. If
// the last of it is not among them, they have none of it any more.
func (f RejectedThinking) Strip(messages []tree.Message) []tree.Message {
	if f.UpTo == "" {
		return messages
	}
	out := slices.Clone(messages)
	lost := f.All
	for i := range slices.Backward(out) {
		blocks := slices.Clone(out[i].Blocks)
		for j, b := range slices.Backward(blocks) {
			if thought, ok := b.(tree.Thinking); ok {
				if lost = lost || thought.Signature == f.UpTo; lost {
					blocks[j] = tree.Thinking{Text: thought.Text}
				}
			}
		}
		out[i].Blocks = blocks
	}
	return out
}

// LastSignature gives that of the last reasoning that can go back to a provider, to which it
// must belong; empty if there is none.
func LastSignature(messages []tree.Message, belongs func(tree.Thinking) bool) string {
	for _, m := range slices.Backward(messages) {
		for _, b := range slices.Backward(m.Blocks) {
			if thought, ok := b.(tree.Thinking); ok && belongs(thought) {
				return thought.Signature
			}
		}
	}
	return ""
}
