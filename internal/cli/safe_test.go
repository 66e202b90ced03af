package cli

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

func TestSafeText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, line, text string }{
		"plain":              {"It works.", "It works.", "It works."},
		"other scripts":      {"日本語 שלום é 👩‍💻", "日本語 שלום é 👩‍💻", "日本語 שלום é 👩‍💻"},
		"lines":              {" a\n\tb\r\nc ", "a b c", " a\n\tb\nc "},
		"colour":             {"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`, `\x1b[31mred\x1b[0m`},
		"window title":       {"\x1b]0;owned\x07", `\x1b]0;owned\x07`, `\x1b]0;owned\x07`},
		"clipboard":          {"\x1b]52;c;cm0=\x1b\\", `\x1b]52;c;cm0=\x1b\`, `\x1b]52;c;cm0=\x1b\`},
		"8-bit control":      {"\u009b2J", `\u009b2J`, `\u009b2J`},
		"backspace":          {"rm -rf\b\b\b\b\b\bls", `rm -rf\x08\x08\x08\x08\x08\x08ls`, `rm -rf\x08\x08\x08\x08\x08\x08ls`},
		"carriage return":    {"good\rbad", "good bad", `good\x0dbad`},
		"delete and zero":    {"a\x7f\x00b", `a\x7f\x00b`, `a\x7f\x00b`},
		"override":           {"\u202etxt.exe", `\u202etxt.exe`, `\u202etxt.exe`},
		"isolates":           {"\u2066a\u2069", `\u2066a\u2069`, `\u2066a\u2069`},
		"right-to-left mark": {"a\u200fb", `a\u200fb`, `a\u200fb`},
		"zero width":         {"pass\u200bword", `pass\u200bword`, `pass\u200bword`},
		"byte order mark":    {"\ufeffa", `\ufeffa`, `\ufeffa`},
		"hidden tags":        {"a\U000e0041", `a\U000e0041`, `a\U000e0041`},
		"line separator":     {"a\u2028b", "a b", `a\u2028b`},
		"wide space":         {"a\u3000b", "a b", "a b"},
		"not UTF-8":          {"a\xffb\xc3", `a\xffb\xc3`, `a\xffb\xc3`},
		"replacement":        {"\ufffd", "\ufffd", "\ufffd"},
		"piled marks":        {"e" + strings.Repeat("\u0301", 50), "e" + strings.Repeat("\u0301", maxMarks), "e" + strings.Repeat("\u0301", maxMarks)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := safeLine(c.in); got != c.line {
				t.Errorf("safeLine(%q) = %q, want %q", c.in, got, c.line)
			}
			if got := safeText(c.in); got != c.text {
				t.Errorf("safeText(%q) = %q, want %q", c.in, got, c.text)
			}
		})
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff\u0301\n\t日本")
	f.Add(`"a\n"`)
	f.Add("a  b \u00a0\u200d")
	f.Add("e" + strings.Repeat("\u0301", 2*maxMarks))
	f.Fuzz(func(t *testing.T, s string) {
		line, text, whole := safeLine(s), safeText(s), safeExact(s)
		if strings.ContainsAny(line+whole, "\n\t") {
			t.Errorf("%q has more than one line: %q, %q", s, line, whole)
		}
		for _, got := range []string{line, text, whole} {
			if !utf8.ValidString(got) {
				t.Errorf("%q became %q, which is not UTF-8", s, got)
			}
			for _, r := range got {
				if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
					t.Errorf("%q became %q, which holds %U", s, got, r)
				}
			}
			if ansi.Strip(got) != got {
				t.Errorf("%q became %q, which holds a terminal sequence", s, got)
			}
		}
		if was, err := strconv.Unquote(whole); was != s && (err == nil || whole != s) {
			t.Errorf("safeWhole(%q) = %q, which says something else", s, whole)
		}
		if again := safeLine(line); again != line {
			t.Errorf("safeLine(%q) = %q, want it unchanged", line, again)
		}
	})
}
