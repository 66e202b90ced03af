package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text from models, agents' files and servers is passed through safeLine, safeText or safeExact when
// it is shown, and nowhere else. They keep plain text. Characters that could move the cursor, change
// the terminal, reorder text or hide in it are escaped, like \x1b or \u202e.

// maxMarks is how many combining marks may follow one another. Further ones are removed, because
// they pile up over other lines.
const maxMarks = 8

// safeLine makes s safe to show on one line. White space is collapsed and trimmed.
func safeLine(s string) string {
	return safe(strings.Join(strings.Fields(s), " "))
}

// safeText makes s safe to show on several lines: line feeds and tabs stay.
func safeText(s string) string {
	return safe(strings.ReplaceAll(s, "\r\n", "\n"), '\n', '\t')
}

// safeExact makes s safe to show on one line without omitting anything, because people decide by
// it what may run. Text that is not plain is quoted as in Go: a line feed is \n and a backslash
// \\. So different texts never look the same.
func safeExact(s string) string {
	if isPlain(s) {
		return s
	}
	return quoted(s)
}

// quoted is safeExact with quotation marks in any case, for use inside a sentence.
func quoted(s string) string {
	if quoted := strconv.Quote(s); safe(quoted) == quoted {
		return quoted
	}
	return strconv.QuoteToASCII(s)
}

// isPlain reports whether a text shows everything it contains, and cannot be confused with
// surrounding or quoted text.
func isPlain(s string) bool {
	hides := func(r rune) bool { return !unicode.IsPrint(r) }
	return safe(s) == s && !strings.ContainsFunc(s, hides) && s == strings.TrimSpace(s) && !strings.Contains(s, "  ") && !strings.HasPrefix(s, `"`)
}

func safe(s string, keep ...rune) string {
	var b strings.Builder
	marks := 0
	for i, r := range s {
		marks++
		if !unicode.IsMark(r) {
			marks = 0
		}
		switch {
		case marks > maxMarks:
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isHarmless(r) || slices.Contains(keep, r):
			b.WriteRune(r)
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		default:
			b.WriteString(escaped(r))
		}
	}
	return b.String()
}

// isHarmless reports whether a rune only shows itself. The two joiners are part of words in some
// scripts, and of emoji.
func isHarmless(r rune) bool {
	return unicode.IsPrint(r) || r == '\u200c' || r == '\u200d'
}

func escaped(r rune) string {
	switch {
	case r <= 0x7f:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
