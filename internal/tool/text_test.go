package tool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Lines are those of splitting the text, cut; however the text arrives.
func TestLineReader(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringMatching(`([ab\r\n]{0,3}|a{10,60}\r?\n?){0,8}`).Draw(r, "text")
		keep := rapid.IntRange(0, 40).Draw(r, "keep")
		lines := &lineReader{keep: keep, buf: bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(text)), 16)}
		want := strings.Split(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		for i, w := range want {
			w = strings.TrimSuffix(w, "\r")
			got, size, err := lines.next()
			if err != nil {
				r.Fatal(err)
			}
			// The end of a line beyond what is kept is not looked at.
			if over := size - int64(len(w)); over != 0 && (over != 1 || len(w) < keep) {
				r.Fatalf("line %d: size %d, want %d", i, size, len(w))
			}
			if string(got) != w[:min(len(w), keep)] {
				r.Fatalf("line %d: %q, want %q", i, got, w)
			}
		}
		if got, _, err := lines.next(); !errors.Is(err, io.EOF) {
			r.Fatalf("after the end: %q, %v", got, err)
		}
	})
}

func TestLongLinesAreNotHeld(t *testing.T) {
	t.Parallel()
	lines := newLineReader(100)
	lines.buf.Reset(io.LimitReader(endless('x'), 64<<20))
	line, size, err := lines.next()
	if err != nil || len(line) != 100 || size != 64<<20 {
		t.Errorf("%d of %d bytes, %v", len(line), size, err)
	}
	if cap(lines.line) > 1000 {
		t.Errorf("holds %d bytes", cap(lines.line))
	}
	lines.buf.Reset(endless('x'))
	line, size, err = lines.next()
	if err != nil || len(line) != 100 || size <= maxLine || size > maxLine+1<<20 {
		t.Errorf("of a line without an end, %d of %d bytes, %v", len(line), size, err)
	}
	if _, _, err = lines.next(); !errors.Is(err, errLongLine) {
		t.Errorf("after it: %v", err)
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(e)}, len(p)))
	return len(p), nil
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		limit int
		want  string
	}{
		{"", 5, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc… (1 bytes of this line not shown)"},
		{"aéé", 2, "a… (4 bytes of this line not shown)"},
		{"a\xffb\x00", 9, "a\ufffdb\ufffd"},
	} {
		got := printable([]byte(c.line), int64(len(c.line)), c.limit)
		if got != c.want || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}
