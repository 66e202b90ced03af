package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxOutput bounds the text of a result, in bytes.
	maxOutput = 30_000
	// maxError bounds the text of an error result.
	maxError = 2_000
	// noteRoom is kept free at the end of a listing for the notes.
	noteRoom = 400
)

// listing is the text of a result as it grows line by line, never beyond maxOutput.
type listing struct {
	text  strings.Builder
	lines int
	limit int // the most lines wanted; 0 is no limit
}

// add appends a line, or reports that it does not fit.
func (l *listing) add(line string) bool {
	full := l.limit > 0 && l.lines == l.limit
	if full || l.text.Len()+len(line)+1 > maxOutput-noteRoom {
		return false
	}
	l.text.WriteString(line)
	l.text.WriteByte('\n')
	l.lines++
	return true
}

// skipped notes that something could not be read.
func (l *listing) skipped(n int) {
	if n > 0 {
		fmt.Fprintf(&l.text, "[skipped: %d files or directories that could not be read]\n", n)
	}
}

// cut notes what was left out and how to get at it. It comes last.
func (l *listing) cut(format string, args ...any) {
	fmt.Fprintf(&l.text, "[cut: %s]\n", fmt.Sprintf(format, args...))
}

// or gives the text, or what to say if there is none.
func (l *listing) or(none string) string {
	if l.lines == 0 {
		none += "\n" + l.text.String()
		return strings.TrimSuffix(none, "\n")
	}
	return strings.TrimSuffix(l.text.String(), "\n")
}

// result is how every tool ends that does its work itself.
func result(text string, err error) Outcome {
	if err != nil {
		return failed(err)
	}
	return Done{Text: text}
}

func failed(err error) Done {
	text := []byte(err.Error())
	return Done{Text: printable(text, int64(len(text)), maxError), IsError: true}
}

// ending gives at most limit bytes from the start of a text, up to the end of a
// character, and if lines is set of a line, if one ends nearby.
func ending(text string, limit int, lines bool) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	text = text[:limit]
	if i := strings.LastIndexByte(text, '\n'); lines && i > limit-noteRoom {
		return text[:i]
	}
	return text
}

// beginning gives at most limit bytes of the end of a text, in the same way.
func beginning(text string, limit int) string {
	from := max(0, len(text)-limit)
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	text = text[from:]
	if i := strings.IndexByte(text, '\n'); i >= 0 && i < noteRoom {
		return text[i+1:]
	}
	return text
}
