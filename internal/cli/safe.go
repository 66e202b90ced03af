package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What models, agents' files and servers wrote is shown to a person through
// safeLine, safeText or safeWhole, where it is drawn and nowhere else. They keep text that
// is only text; whatever could move the cursor, change the terminal, reorder
// what is read or hide in it is written out, like \x1b or \u202e.

// maxMarks is how many combining marks may follow one another; the rest is left
// out, since they pile up over other lines.
const maxMarks = 8

// safeLine makes s safe to show on one line. Runs of white space become one
// space, and none is left at the ends.
func safeLine(s string) string {
	return safe(strings.Join(strings.Fields(s), " "))
}

// safeText makes s safe to show on several lines: line feeds and tabs stay.
func safeText(s string) string {
	return safe(strings.ReplaceAll(s, "\r\n", "\n"), '\n', '\t')
}

// safeWhole makes s safe to show on one line, and leaves nothing out: people decide by it what
// may run. What is not plain is in quotation marks, as Go writes strings: a line feed is \n
// and a backslash \\. So no two texts look the same.
func safeExact(s string) string {
	if isPlain(s) {
		return s
	}
	return quoted(s)
}

// quoted is safeWhole where words stand around it, with quotation marks in any case.
func quoted(s string) string {
	if quoted := strconv.Quote(s); safe(quoted) == quoted {
		return quoted
	}
	return strconv.QuoteToASCII(s)
}

// isPlain reports whether a text shows all that is in it, and is told from what stands around
// it and from a quoted text.
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

// harmless reports whether a rune shows itself and does nothing else. The two
// joiners are part of words in some scripts, and of emoji.
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
