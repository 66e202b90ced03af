// Package excerpt cuts texts to a number of bytes without cutting characters. Bytes that are
// not valid UTF-8 are treated as characters of one byte. Make the text valid first where that
// matters.
package excerpt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Valid makes a text fit to be stored and sent: valid UTF-8 without NUL characters.
func Valid(text string) string {
	const unknown = string(utf8.RuneError)
	return strings.ReplaceAll(strings.ToValidUTF8(text, unknown), "\x00", unknown)
}

// Head returns the start of a text, at most limit bytes.
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

// Tail returns the end of a text, at most limit bytes.
func Tail(text string, limit int) string {
	first := max(0, len(text)-limit)
	for start := first; start < min(first+utf8.UTFMax, len(text)); start++ {
		if utf8.RuneStart(text[start]) {
			return text[start:]
		}
	}
	if len(text)-first < utf8.UTFMax {
		return "" // the last bytes of one character
	}
	return text[first:]
}

// Short returns a text, or its head and an ellipsis if it has more than limit bytes.
func Short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return Head(text, limit) + "…"
}

// Ends returns a text or, if it has more than limit bytes, its head and its tail with a marker
// between them that says how much is left out.
func Ends(text string, limit int) string {
	ends, _ := Cut(text, limit)
	return ends
}

// Cut is like Ends and also returns how many bytes are left out. The result alone does not
// tell, because the text itself may contain such a marker.
func Cut(text string, limit int) (ends string, left int) {
	if len(text) <= limit {
		return text, 0
	}
	const room = 80 // space for the marker
	half := max(0, (limit-room)/2)
	head, tail := Head(text, half), Tail(text, half)
	left = len(text) - len(head) - len(tail)
	return head + cutMarker(left, len(text)) + tail, left
}

func cutMarker(left, of int) string {
	return fmt.Sprintf("\n[cut: %d of %d bytes left out]\n", left, of)
}

// Parts returns the text before and after the marker in a result of Cut that leaves out this
// many bytes. found is false if the marker is not at its place; other markers in the text do
// not count.
func Parts(ends string, left int) (head, tail string, found bool) {
	const most = 20 // maximum digits of a number
	for digits := 1; left > 0 && digits < most; digits++ {
		room := len(cutMarker(left, 0)) - 1 + digits
		kept := len(ends) - room
		line := cutMarker(left, kept+left)
		if kept < 0 || len(line) != room {
			continue
		}
		// Each half is shorter than its share by less than one character.
		for at := max(0, kept/2-utf8.UTFMax); at <= min(kept, kept/2+utf8.UTFMax); at++ {
			if tail, found = strings.CutPrefix(ends[at:], line); found {
				return ends[:at], tail, true
			}
		}
	}
	return "", "", false
}

// Unfinished returns how many bytes at the end of a text belong to an incomplete character.
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
