package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/excerpt"
)

const (
	// binarySniffBytes is how much of a file is examined to tell text from binary.
	binarySniffBytes = 8 << 10
	// maxLine is how much of a line is read, in bytes. Nothing is read after a longer line.
	maxLine = 64 << 20
	// byteOrderMark may precede the first line of a text. It is not part of the line.
	byteOrderMark = "\ufeff"
)

var (
	errBinary   = errors.New("a binary file")
	errLongLine = fmt.Errorf("a line of more than %d bytes, after which nothing is read", maxLine)
)

// lineReader reads a text line by line and keeps at most keep bytes of each line, so it never
// holds a large file or a long line.
type lineReader struct {
	keep  int
	tee   io.Writer // receives everything that is read; nil: nothing does
	buf   *bufio.Reader
	line  []byte
	stuck bool // in a line longer than maxLine
}

func newLineReader(keep int) *lineReader {
	return &lineReader{keep: keep, buf: bufio.NewReaderSize(nil, 64<<10)}
}

// next returns the beginning of the next line without its line break, and the length of the whole
// line, which is above maxLine if the line is longer than that. The line is valid until the next
// call. At the end of the text the error is io.EOF, and after a line longer than maxLine it is
// errLongLine.
func (l *lineReader) next() (line []byte, size int64, err error) {
	if l.stuck {
		return nil, 0, errLongLine
	}
	l.line = l.line[:0]
	for {
		chunk, err := l.buf.ReadSlice('\n')
		last := errors.Is(err, io.EOF) && size+int64(len(chunk)) > 0
		whole := err == nil && size == 0
		chunk = bytes.TrimSuffix(chunk, []byte("\n"))
		size += int64(len(chunk))
		if whole {
			return l.cut(chunk, size)
		}
		l.line = append(l.line, chunk[:min(len(chunk), max(0, l.keep+1-len(l.line)))]...)
		if err == nil || last {
			return l.cut(l.line, size)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, 0, err
		}
		if size > maxLine {
			l.stuck = true
			return l.cut(l.line, size)
		}
	}
}

// cut removes a trailing carriage return, if the line is complete, and cuts the line to keep
// bytes.
func (l *lineReader) cut(line []byte, size int64) ([]byte, int64, error) {
	if int64(len(line)) == size {
		line = bytes.TrimSuffix(line, []byte("\r"))
		size = int64(len(line))
	}
	return line[:min(len(line), l.keep)], size, nil
}

// openText opens a file of the workspace for lines. The caller closes the file. Directories and
// binary files are refused; for the latter the error wraps errBinary. Reading fails once ctx has
// ended.
func (w *Workspace) openText(ctx context.Context, name string, lines *lineReader) (*os.File, error) {
	file, err := w.open(name)
	if err != nil {
		return nil, err
	}
	text := readUntil(ctx, file)
	if lines.tee != nil {
		text = io.TeeReader(text, lines.tee)
	}
	lines.buf.Reset(text)
	lines.stuck = false
	head, err := lines.buf.Peek(binarySniffBytes)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
	case bytes.IndexByte(head, 0) >= 0:
		err = errBinary
	default:
		return file, nil
	}
	return nil, errors.Join(pathError(name, err), file.Close())
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// readUntil returns a reader that fails once ctx has ended.
func readUntil(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

type runeFunc func() (rune, int, error)

func (f runeFunc) ReadRune() (rune, int, error) { return f() }

// readRunesUntil is readUntil for runes.
func readRunesUntil(ctx context.Context, r io.RuneReader) io.RuneReader {
	return runeFunc(func() (rune, int, error) {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		return r.ReadRune()
	})
}

// printable makes a line fit to be stored and shown: valid UTF-8 without NUL, and at most limit
// bytes with a note on the rest. size is the length of the whole line.
func printable(line []byte, size int64, limit int) string {
	if size <= int64(limit) {
		return excerpt.Valid(string(line))
	}
	head, more := excerpt.Head(string(line), limit), ""
	if size > maxLine {
		size, more = maxLine, "more than "
	}
	return fmt.Sprintf("%s… (%s%d bytes of this line not shown)", excerpt.Valid(head), more, size-int64(len(head)))
}

// displayPath returns a path for a list with one path on each line: unchanged, or quoted if it
// would break the list.
func displayPath(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}
