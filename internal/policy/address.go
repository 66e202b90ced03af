package policy

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// delimiters are the characters whose escaped form has another meaning in a URL.
const delimiters = "%:/?#[]@!$&'()*+,;="

// matchesURL reports whether the pattern matches a normalised URL. Escaped and unescaped
// characters are equal, except for delimiters. What precedes the path in the pattern matches only
// what precedes it in the URL, so that a * for a part of the host does not match a path.
func (g glob) matchesURL(address string) bool {
	g = g.unescaped(delimiters)
	end := g.hostEnd()
	if end < 0 {
		return g.matchAnyHost(address, delimiters)
	}
	scheme, rest, _ := strings.Cut(address, "://")
	host, path, _ := strings.Cut(rest, "/")
	return g[:end].matchAnyHost(scheme+"://"+host, delimiters) && g[end:].match(unescape("/"+path, delimiters), false)
}

// hostEnd returns where the path begins in a pattern for URLs; -1 if the pattern does not tell.
func (g glob) hostEnd() int {
	n := slices.IndexFunc(g, part.isSlash)
	if n < 1 || n+1 == len(g) || g[n-1].kind != literal || g[n-1].literal != ':' || !g[n+1].isSlash() {
		return -1
	}
	host := n + len("//")
	if n = slices.IndexFunc(g[host:], part.isSlash); n < 0 {
		return -1
	}
	return host + n
}

// mayMatchURL reports whether the pattern matches a normalised URL, or would match it for a server
// that treats escaped delimiters like unescaped ones.
func (g glob) mayMatchURL(address string) bool {
	return g.match(address, false) || g.unescaped(delimiters).matchAnyHost(address, delimiters) || g.unescaped("").matchAnyHost(address, "")
}

// matchAnyHost matches the pattern against a URL without escapes (except of the characters in
// kept), with its host in ASCII and in Unicode.
func (g glob) matchAnyHost(address, kept string) bool {
	return slices.ContainsFunc(hostForms(address), func(a string) bool { return g.match(unescape(a, kept), false) })
}

// unescaped replaces escapes in the pattern by the characters that they stand for, except for
// those in kept.
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

// hostForms returns a normalised URL, and also its form with the host in Unicode if that differs.
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

// unescape replaces escapes by the characters that they stand for. Escapes of characters in kept,
// and of invalid UTF-8, stay, in upper case.
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
