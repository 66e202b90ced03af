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
	// noteReserve is reserved at the end of a listing for notes.
	noteReserve = 400
)

// listing is the text of a result that grows line by line, never beyond maxOutput.
type listing struct {
	text  strings.Builder
	lines int
	limit int // the maximum number of lines; 0: no limit
}

// add appends a line. It returns false if the line does not fit.
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

// noteSkipped notes that some files could not be read.
func (l *listing) noteSkipped(n int) {
	if n > 0 {
		fmt.Fprintf(&l.text, "[skipped: %d files or directories that could not be read]\n", n)
	}
}

// noteLong notes that some files were read only up to a line that is too long.
func (l *listing) noteLong(n int) {
	if n > 0 {
		fmt.Fprintf(&l.text, "[skipped: the rest of %d files with %v]\n", n, errLongLine)
	}
}

// noteCut notes what was left out and how to get it. It must be called last.
func (l *listing) noteCut(format string, args ...any) {
	fmt.Fprintf(&l.text, "[cut: %s]\n", fmt.Sprintf(format, args...))
}

// textOr returns the text, or none if there are no lines.
func (l *listing) textOr(none string) string {
	if l.lines == 0 {
		none += "\n" + l.text.String()
		return strings.TrimSuffix(none, "\n")
	}
	return strings.TrimSuffix(l.text.String(), "\n")
}

// result is the outcome of a tool that does its work itself.
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

// headLines returns the beginning of a text, at most limit bytes, up to a line break if there is
// one near the cut.
func headLines(text string, limit int) string {
	head := excerpt.Head(text, limit)
	if i := strings.LastIndexByte(head, '\n'); len(head) < len(text) && i > len(head)-noteReserve {
		return head[:i]
	}
	return head
}

// tailLines returns the end of a text, at most limit bytes, from a line break if there is one near
// the cut.
func tailLines(text string, limit int) string {
	tail := excerpt.Tail(text, limit)
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < noteReserve {
		return tail[i+1:]
	}
	return tail
}
