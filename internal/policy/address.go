package policy

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// delimiters mean something else in a URL than their escapes do.
const delimiters = "%:/?#[]@!$&'()*+,;="

// wholeAddress reports whether the pattern is over a URL in its plain form. It does not
// matter which of them has a character escaped, but for delimiters.
func (g glob) matchesURL(address string) bool {
	return g.unescaped(delimiters).matchAnyHost(address, delimiters)
}

// partlyAddress reports whether the pattern is over a URL in its plain form, or would be
// over it for a server that tells no escape from what it stands for.
func (g glob) mayMatchURL(address string) bool {
	return g.match(address, false) || g.matchesURL(address) || g.unescaped("").matchAnyHost(address, "")
}

// matchAny holds the pattern against a URL without escapes, but for those that are kept,
// with its host in ASCII and in Unicode.
func (g glob) matchAnyHost(address, kept string) bool {
	return slices.ContainsFunc(hostForms(address), func(a string) bool { return g.match(unescape(a, kept), false) })
}

// unescaped gives the pattern with what escapes in it stand for, but for those that are kept.
func (g glob) unescaped(kept string) glob {
	var out glob
	for len(g) > 0 {
		n := slices.IndexFunc(g, func(p part) bool { return p.kind != literal })
		if n < 0 {
			n = len(g)
		}
		text := make([]rune, n)
		for i, p := range g[:n] {
			text[i] = p.literal
		}
		for _, r := range unescape(string(text), kept) {
			out = append(out, part{literal: r})
		}
		if n < len(g) {
			out = append(out, g[n])
			n++
		}
		g = g[n:]
	}
	return out
}

// withHosts gives a URL in its plain form, and with its host in Unicode if that is another one.
func hostForms(address string) []string {
	scheme, rest, _ := strings.Cut(address, "://")
	host := rest
	if end := strings.IndexAny(rest, ":/?"); end >= 0 {
		host = rest[:end]
	}
	if read, err := idna.Lookup.ToUnicode(host); err == nil && read != host {
		return []string{address, scheme + "://" + read + rest[len(host):]}
	}
	return []string{address}
}

// unescape writes what escapes stand for in their place. Those of the characters that are
// kept and of what is no UTF-8 stay, in one way of writing.
func unescape(text, kept string) string {
	var out strings.Builder
	for text != "" {
		var bytes []byte
		for len(text) > 2 && text[0] == '%' {
			b, err := hex.DecodeString(text[1:3])
			if err != nil {
				break
			}
			bytes, text = append(bytes, b...), text[3:]
		}
		for len(bytes) > 0 {
			r, size := utf8.DecodeRune(bytes)
			if r == utf8.RuneError && size == 1 || strings.ContainsRune(kept, r) {
				fmt.Fprintf(&out, "%%%02X", bytes[0])
			} else {
				out.WriteRune(r)
			}
			bytes = bytes[size:]
		}
		if text != "" {
			out.WriteByte(text[0])
			text = text[1:]
		}
	}
	return out.String()
}
