package conversation

import (
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// RejectedThinking records the reasoning that a provider refused to take back. The zero value
// is empty.
type RejectedThinking struct {
	UpTo string // signature of the last rejected block
	All  bool   // later blocks are rejected too: the provider refused one of them as well
}

// Add returns the value after another request was refused for its reasoning, where last is the
// last signature in that request. news reports whether this adds anything.
func (f RejectedThinking) Add(last string) (more RejectedThinking, news bool) {
	if f.All || last == "" || last == f.UpTo {
		return f, false
	}
	return RejectedThinking{UpTo: last, All: f.UpTo != ""}, true
}

// Strip returns the messages without the signatures of rejected reasoning, so that it is not
// sent back. If the messages do not contain the signature UpTo, the rejected reasoning is gone
// from them already.
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

// LastSignature returns the last signature that belongs to a provider and can be sent back to
// it. It returns "" if there is none.
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
