package tool

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

type closer struct{ *bytes.Buffer }

func (closer) Close() error { return nil }

// TestCaptureHoldsBeginningAndEnd: however the output is cut into pieces, the file
// has all of it, and what is shown is its beginning and its end.
func TestCaptureHoldsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		half := 1 + r.IntN(20)
		var all, file bytes.Buffer
		c := &capture{half: half, name: "f", open: func() (io.WriteCloser, error) { return closer{&file}, nil }}
		for range r.IntN(12) {
			piece := make([]byte, r.IntN(3*half))
			for i := range piece {
				piece[i] = byte('a' + r.IntN(26))
			}
			all.Write(piece)
			if n, err := c.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("wrote %d, %v", n, err)
			}
		}
		got, text := c.text(), all.String()
		switch {
		case len(text) <= 2*half && (got != text || file.Len() > 0):
			t.Fatalf("half %d: %q became %q, the file has %q", half, text, got, file.String())
		case len(text) > 2*half:
			head, tail, _ := strings.Cut(got, "\n[cut: ")
			if head != text[:half] || !strings.HasSuffix(tail, "in f]\n"+text[len(text)-half:]) || file.String() != text {
				t.Fatalf("half %d: %q became %q, the file has %q", half, text, got, file.String())
			}
		}
		limit := 1 + r.IntN(half)
		if end := c.tailText(limit); !strings.HasSuffix(end, text[max(0, len(text)-limit):]) {
			t.Fatalf("half %d: the last %d of %q are %q", half, limit, text, end)
		}
	}
}

func TestCaptureBounds(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	c := &capture{half: 100, name: "f", open: func() (io.WriteCloser, error) { return closer{&file}, nil }}
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for range maxCommandOutput/len(chunk) + 10 {
		c.Write(chunk)
	}
	if file.Len() != maxCommandOutput || len(c.head) > 100 || cap(c.tail) > 10*100 {
		t.Errorf("the file has %d bytes, held are %d and %d", file.Len(), len(c.head), cap(c.tail))
	}
	if got := c.text(); !strings.Contains(got, "more is in f, but not all: only the first 33554432 bytes are kept") {
		t.Errorf("%q", got)
	}
	none := &capture{half: 10, open: func() (io.WriteCloser, error) { return nil, errors.New("full") }}
	none.Write(chunk)
	if got := none.text(); !strings.Contains(got, "the rest could not be kept") {
		t.Errorf("%q", got)
	}
	zeros := &capture{half: 30}
	zeros.Write(make([]byte, 60))
	if got := zeros.text(); strings.Count(got, "�") != 20 || !strings.Contains(got, "[cut: 60 bytes") {
		t.Errorf("%q", got)
	}
}

// The end of an output that is shown whole is not called cut, though bytes of it are replaced by longer
// ones.
func TestCaptureEndsOfWhatIsNotText(t *testing.T) {
	t.Parallel()
	c := &capture{half: 100, name: "f", open: func() (io.WriteCloser, error) { return closer{&bytes.Buffer{}}, nil }}
	c.keepInFile()
	c.Write([]byte("caf\xe9\x00"))
	if got := c.tailText(20); got != "caf\ufffd\ufffd" {
		t.Errorf("%q", got)
	}
	if got := c.tailText(8); got != "[cut: 5 bytes were printed, these are the last; the whole is in f]\naf\ufffd\ufffd" {
		t.Errorf("%q", got)
	}
}

// Where the middle of an output is cut out, no character is broken.
func TestCaptureCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, letter := range []string{"é", "語", "😀"} {
		for before := range 4 {
			c := &capture{half: 10, name: "f", open: func() (io.WriteCloser, error) { return closer{&bytes.Buffer{}}, nil }}
			c.Write([]byte("abc"[:before] + strings.Repeat(letter, 10) + "def"[:before]))
			if got := c.text(); strings.Contains(got, "\ufffd") || !strings.Contains(got, letter) {
				t.Errorf("%q", got)
			}
		}
	}
}
