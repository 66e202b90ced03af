package tool

import (
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
)

const (
	// maxOutput bounds the text of a result, in bytes.
	maxOutput = 30_000
	// maxError bounds the text of an error result.
	maxError = 2_000
	// noteRoom is kept free at the end of a listing for the notes.
	noteReserve = 400
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
	if full || l.text.Len()+len(line)+1 > maxOutput-noteReserve {
		return false
	}
	l.text.WriteString(line)
	l.text.WriteByte('\n')
	l.lines++
	return true
}

// skipped notes that something could not be read.
func (l *listing) noteSkipped(n int) {
	if n > 0 {
		fmt.Fprintf(&l.text, "[skipped: %d files or directories that could not be read]\n", n)
	}
}

// cut notes what was left out and how to get at it. It comes last.
func (l *listing) noteCut(format string, args ...any) {
	fmt.Fprintf(&l.text, "[cut: %s]\n", fmt.Sprintf(format, args...))
}

// or gives the text, or what to say if there is none.
func (l *listing) textOr(none string) string {
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

// headLines gives the beginning of a text, at most limit bytes of it, up to the end of a
// line if one ends nearby.
func headLines(text string, limit int) string {
	head := excerpt.Head(text, limit)
	if i := strings.LastIndexByte(head, '\n'); len(head) < len(text) && i > len(head)-noteReserve {
		return head[:i]
	}
	return head
}

// tailLines gives the end of a text, at most limit bytes of it, from the beginning of a
// line if one begins nearby.
func tailLines(text string, limit int) string {
	tail := excerpt.Tail(text, limit)
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < noteReserve {
		return tail[i+1:]
	}
	return tail
}
