package mcp

import (
	"net/url"
	"slices"
	"strings"
)

// minSecret is the minimum length of a secret, in bytes. Shorter texts occur in too many words.
const minSecret = 6

const hidden = "[redacted]"

// scrubber removes secrets from texts.
type scrubber struct{ replacer *strings.Replacer }

func newScrubber(secrets []string) scrubber {
	var all []string
	for _, whole := range secrets {
		_, token, _ := strings.Cut(whole, " ") // the token in "Bearer token"
		for _, s := range []string{whole, token} {
			if len(s) >= minSecret {
				all = append(all, s, url.QueryEscape(s), url.PathEscape(s))
			}
		}
	}
	// Longest first, so that a secret inside another one does not leave the rest of it.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range slices.Compact(all) {
		pairs = append(pairs, s, hidden)
	}
	return scrubber{strings.NewReplacer(pairs...)}
}

func (s scrubber) scrub(text string) string { return s.replacer.Replace(text) }

// has reports whether a text contains a secret.
func (s scrubber) has(text string) bool { return s.scrub(text) != text }

// clean returns a text without secrets, and [cleaned].
func (s scrubber) clean(text string) string { return cleaned(s.scrub(text)) }
