package redact

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapeLevels is how many levels of escapes are undone: for example JSON in a JSON string in a
// URL.
const escapeLevels = 3

// longestEscape is the maximum length of an escape in bytes: \uXXXX twice.
const longestEscape = 12

// special are the characters that start an escape, and line breaks. Line breaks are removed, so
// that a secret that was broken across lines is whole again.
var special = [256]bool{'%': true, '\\': true, '&': true, '\n': true, '\r': true}

// view is a text with some levels of escapes undone.
type view struct {
	text  string
	from  []int32 // per byte: the start of what it stands for in the original; nil: the view is the original
	to    []int32 // and the end of that
	units []span  // the escapes of the last level, in the original
	rest  int     // where an incomplete escape starts in the original; its length if there is none
}

type span struct{ start, end int }

func original(text string) view { return view{text: text, rest: len(text)} }

// at returns where byte i starts in the original. For the index after the last byte it returns
// the end.
func (v *view) at(i int) int {
	switch {
	case i >= len(v.text):
		return v.rest
	case v.from == nil:
		return i
	}
	return int(v.from[i])
}

// span returns what the bytes from start to end stand for.
func (v *view) span(start, end int) span {
	if v.to == nil {
		return span{start, end}
	}
	return span{int(v.from[start]), int(v.to[end-1])}
}

// next undoes one more level of escapes. final says that no more text follows.
func (v *view) next(final bool) view {
	text := v.text
	out := make([]byte, 0, len(text))
	n := view{rest: v.rest, from: make([]int32, 0, len(text)), to: make([]int32, 0, len(text))}
	for i := 0; i < len(text); {
		e := escape{value: text[i : i+1], n: 1}
		if special[text[i]] {
			e = escapeAt(text[i:])
			if e.more && !final {
				n.rest = v.at(i)
				break
			}
			if e.n == 0 || e.more {
				e = escape{value: text[i : i+1], n: 1}
			}
		}
		of := v.span(i, i+e.n)
		if of.end-of.start > 1 {
			n.units = append(n.units, of)
		}
		for range len(e.value) {
			n.from, n.to = append(n.from, int32(of.start)), append(n.to, int32(of.end))
		}
		out = append(out, e.value...)
		i += e.n
	}
	n.text = string(out)
	return n
}

// escape is a possible escape at a special character.
type escape struct {
	value string // the decoded value
	n     int    // length in bytes; 0: not an escape
	more  bool   // the text ends before it is complete
}

// unescapeOnce appends text with one level of escapes undone, and reports whether it changed
// anything. Line breaks count as escapes.
func unescapeOnce[T string | []byte](to []byte, text T) (_ []byte, changed bool) {
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && !special[text[j]] {
			j++
		}
		to = append(to, text[i:j]...)
		if j == len(text) {
			break
		}
		var e escape
		if window := text[j:min(j+longestEscape, len(text))]; mayBeEscape(window) {
			e = escapeAt(string(window))
		}
		if e.n == 0 || e.more {
			to = append(to, text[j])
			i = j + 1
			continue
		}
		changed = true
		to = append(to, e.value...)
		i = j + e.n
	}
	return to, changed
}

// mayBeEscape reports whether a special character may start an escape. Most % and & in programs
// do not.
func mayBeEscape[T string | []byte](text T) bool {
	switch text[0] {
	case '%':
		return len(text) > 2 && isHex(text[1]) && isHex(text[2])
	case '&':
		return len(text) > 3 && text[1] != ' ' && text[1] != '&'
	}
	return true
}

// escapeAt parses the escape at the start of a text.
func escapeAt(text string) escape {
	switch text[0] {
	case '%':
		return number(text, 1, 2, false)
	case '\\':
		return backslash(text)
	case '&':
		return entity(text)
	}
	return escape{n: 1}
}

// number parses hexadecimal digits after head bytes, as a byte or as a character.
func number(text string, head, digits int, character bool) escape {
	end := min(len(text), head+digits)
	for _, c := range []byte(text[head:end]) {
		if !isHex(c) {
			return escape{}
		}
	}
	if end < head+digits {
		return escape{more: true}
	}
	n, err := strconv.ParseUint(text[head:end], 16, 32)
	switch {
	case err != nil:
		return escape{}
	case character:
		return escapeFor(rune(n), end)
	}
	return escape{value: string([]byte{byte(n)}), n: end}
}

// escapeFor returns the escape for a character. Line breaks decode to nothing.
func escapeFor(c rune, n int) escape {
	if c == '\n' || c == '\r' {
		return escape{n: n}
	}
	return escape{value: string(c), n: n}
}

func backslash(text string) escape {
	if len(text) == 1 {
		return escape{more: true}
	}
	switch c := text[1]; {
	case c == 'u':
		return unicodeEscape(text)
	case c == 'U':
		return number(text, 2, 8, true) //nolint:mnd // eight digits behind \U
	case c == 'x':
		return number(text, 2, 2, false) //nolint:mnd // two digits behind \x
	case c == 'n' || c == 'r' || c == '\n' || c == '\r':
		return escape{n: 2}
	case c == 't':
		return escape{value: "\t", n: 2}
	case c < utf8.RuneSelf && c >= ' ' && c != '%' && !isWord(c): // no program escapes % like this
		return escape{value: text[1:2], n: 2}
	}
	return escape{}
}

// unicodeEscape parses \uXXXX, or a surrogate pair.
func unicodeEscape(text string) escape {
	const one, digits = 6, 4
	first := number(text, 2, digits, true)
	if first.n == 0 {
		return first
	}
	high, err := strconv.ParseUint(text[2:one], 16, 32)
	if err != nil || !utf16.IsSurrogate(rune(high)) {
		return first
	}
	switch rest := text[one:]; {
	case rest == "" || rest == "\\":
		return escape{more: true}
	case !strings.HasPrefix(rest, "\\u"):
		return first
	default:
		second := number(rest, 2, digits, true)
		if second.more {
			return second
		}
		if second.n == 0 {
			return first
		}
		low, err := strconv.ParseUint(rest[2:one], 16, 32)
		if c := utf16.DecodeRune(rune(high), rune(low)); err == nil && c != utf8.RuneError {
			return escape{value: string(c), n: 2 * one}
		}
		return first
	}
}

var entities = map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'"}

// entity parses an HTML entity.
func entity(text string) escape {
	const longest = 10
	end := 1
	for end < len(text) && end < longest && (isWord(text[end]) || end == 1 && text[end] == '#') {
		end++
	}
	switch {
	case end == len(text):
		return escape{more: end < longest}
	case text[end] != ';':
		return escape{}
	}
	name, n := text[1:end], end+1
	if value, ok := entities[name]; ok {
		return escape{value: value, n: n}
	}
	digits, isNumber := strings.CutPrefix(name, "#")
	base := 10
	if isNumber && strings.HasPrefix(strings.ToLower(digits), "x") {
		digits, base = digits[1:], 16
	}
	c, err := strconv.ParseInt(digits, base, 32)
	if !isNumber || err != nil || c < 1 || c > utf8.MaxRune {
		return escape{}
	}
	return escapeFor(rune(c), n)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
