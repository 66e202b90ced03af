package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/coppice-run/coppice/internal/excerpt"
)

func TestPieces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text              string
		limit             int
		head, tail, short string
	}{
		{"abc", 3, "abc", "abc", "abc"},
		{"abc", 2, "ab", "bc", "ab…"},
		{"aé", 2, "a", "é", "a…"},
		{"éa", 2, "é", "a", "é…"},
		{"日本", 5, "日", "本", "日…"},
		{"日", 2, "", "", "…"},
		{"日", 0, "", "", "…"},
		{"", 0, "", "", ""},
	} {
		if got := excerpt.Head(c.text, c.limit); got != c.head {
			t.Errorf("Head(%q, %d) = %q, want %q", c.text, c.limit, got, c.head)
		}
		if got := excerpt.Tail(c.text, c.limit); got != c.tail {
			t.Errorf("Tail(%q, %d) = %q, want %q", c.text, c.limit, got, c.tail)
		}
		if got := excerpt.Short(c.text, c.limit); got != c.short {
			t.Errorf("Short(%q, %d) = %q, want %q", c.text, c.limit, got, c.short)
		}
	}
}

// TestPiecesOfAnyText: a piece fits, is valid, and lacks less than a character of what
// would have fitted.
func TestPiecesOfAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		limit := rapid.IntRange(0, len(text)+1).Draw(t, "limit")
		head, tail := excerpt.Head(text, limit), excerpt.Tail(text, limit)
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Fatalf("head %q and tail %q of %q", head, tail, text)
		}
		for _, piece := range []string{head, tail} {
			if !utf8.ValidString(piece) || len(piece) > limit || len(piece) <= min(limit, len(text))-utf8.UTFMax {
				t.Fatalf("%q of %q for a limit of %d", piece, text, limit)
			}
		}
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "part"), rapid.IntRange(1, 50).Draw(t, "parts"))
		limit := rapid.IntRange(100, 300).Draw(t, "limit")
		got := excerpt.Ends(text, limit)
		if len(text) <= limit {
			if got != text {
				t.Fatalf("%q is %q", text, got)
			}
			return
		}
		head, rest, cut := strings.Cut(got, "\n[cut: ")
		_, tail, _ := strings.Cut(rest, " bytes left out]\n")
		if !cut || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("%q within %d bytes is %q", text, limit, got)
		}
	})
}

// TestParts: what stands around the line is found again, whatever else looks like it.
func TestParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\n[cut: 9 of 109 bytes left out]\n", "\n[cut: 99"})).Draw(t, "part")
		text := strings.Repeat(part, rapid.IntRange(1, 50).Draw(t, "parts"))
		limit := rapid.IntRange(100, 300).Draw(t, "limit")
		ends, left := excerpt.Cut(text, limit)
		head, tail, found := excerpt.Parts(ends, left)
		switch {
		case found != (left > 0) || ends != excerpt.Ends(text, limit):
			t.Fatalf("%q within %d bytes: %d left out, found %v", text, limit, left, found)
		case left > 0 && (len(head)+left+len(tail) != len(text) || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail)):
			t.Fatalf("%q within %d bytes is %q and %q, %d left out", text, limit, head, tail, left)
		}
	})
	for _, none := range []string{"", "x", strings.Repeat("x", 100), "\n[cut: 9 of 109 bytes left out]\n" + strings.Repeat("x", 100)} {
		if head, tail, found := excerpt.Parts(none, 9); found {
			t.Errorf("%q is %q and %q", none, head, tail)
		}
	}
}

// TestAnyBytes: what is no UTF-8 is bounded too.
func TestAnyBytes(t *testing.T) {
	t.Parallel()
	broken := strings.Repeat("\x80", 10)
	if head, tail := excerpt.Head(broken, 5), excerpt.Tail(broken, 5); head != broken[:5] || tail != broken[:5] {
		t.Errorf("of continuation bytes %q and %q", head, tail)
	}
	if n := excerpt.Unfinished(broken); n != 0 {
		t.Errorf("%d bytes at the end of continuation bytes begin a character", n)
	}
}

func TestUnfinished(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		next := string(rapid.Rune().Draw(t, "next"))
		for n := range len(next) {
			if got := excerpt.Unfinished(text + next[:n]); got != n {
				t.Fatalf("%d of %d bytes of %q: %d", n, len(next), next, got)
			}
			if got := excerpt.Unfinished([]byte(text + next[:n])); got != n {
				t.Fatalf("%d of %d bytes of %q: %d", n, len(next), next, got)
			}
		}
		if got := excerpt.Unfinished(text + next); got != 0 {
			t.Fatalf("%d bytes of a whole %q", got, next)
		}
	})
}
