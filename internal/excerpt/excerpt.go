// Package excerpt takes pieces of a text that are bounded in bytes and hold whole
// characters. Bytes that are not UTF-8 are cut as if each were one: make text valid
// first where that matters.
package excerpt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Head gives the beginning of a text, at most limit bytes of it.
func Head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for end := limit; end >= 0 && end > limit-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:limit]
}

// Tail gives the end of a text, at most limit bytes of it.
func Tail(text string, limit int) string {
	first := max(0, len(text)-limit)
	for start := first; start < min(first+utf8.UTFMax, len(text)); start++ {
		if utf8.RuneStart(text[start]) {
			return text[start:]
		}
	}
	if len(text)-first < utf8.UTFMax {
		return "" // the end of a character
	}
	return text[first:]
}

// Short gives a text, or its head and an ellipsis if it has more than limit bytes.
func Short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return Head(text, limit) + "…"
}

// Ends gives a text, or its head and its tail if it has more than limit bytes, and says
// between them how much is left out.
func Ends(text string, limit int) string {
	ends, _ := Cut(text, limit)
	return ends
}

// Cut is Ends, with how many bytes are left out: what is in the text itself may look as if some
// were.
func Cut(text string, limit int) (ends string, left int) {
	if len(text) <= limit {
		return text, 0
	}
	const room = 80 // for the line that says so
	half := max(0, (limit-room)/2)
	head, tail := Head(text, half), Tail(text, half)
	left = len(text) - len(head) - len(tail)
	return head + cutMarker(left, len(text)) + tail, left
}

func cutMarker(left, of int) string {
	return fmt.Sprintf("\n[cut: %d of %d bytes left out]\n", left, of)
}

// Parts gives what stands on both sides of the line in a text that Cut has left so much out of;
// false if there is no such line where it has to be. One that is in the text itself is none.
func Parts(ends string, left int) (head, tail string, found bool) {
	const most = 20 // digits of a number
	for digits := 1; left > 0 && digits < most; digits++ {
		room := len(cutMarker(left, 0)) - 1 + digits
		kept := len(ends) - room
		line := cutMarker(left, kept+left)
		if kept < 0 || len(line) != room {
			continue
		}
		// Each half lacks less than a character of what would fit.
		for at := max(0, kept/2-utf8.UTFMax); at <= min(kept, kept/2+utf8.UTFMax); at++ {
			if tail, found = strings.CutPrefix(ends[at:], line); found {
				return ends[:at], tail, true
			}
		}
	}
	return "", "", false
}

// Unfinished is how many bytes at the end of a text begin a character and do not end it.
func Unfinished[T string | []byte](text T) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(text)); n++ {
		last := text[len(text)-n:]
		if !utf8.RuneStart(last[0]) {
			continue
		}
		if utf8.FullRuneInString(string(last)) {
			return 0
		}
		return n
	}
	return 0
}
