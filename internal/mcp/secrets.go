package mcp

import (
	"encoding/json"
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
				all = append(all, inJSON(s)...)
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

// inJSON returns a text as different encoders write it inside a JSON string: they need not escape
// what has a meaning in HTML, nor slashes.
func inJSON(text string) []string {
	var forms []string
	for _, html := range []bool{false, true} {
		var out strings.Builder
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(html)
		if e.Encode(text) == nil { // a text always has a JSON form
			form := out.String()[1 : out.Len()-len("\"\n")]
			forms = append(forms, form, strings.ReplaceAll(form, "/", `\/`))
		}
	}
	return forms
}
