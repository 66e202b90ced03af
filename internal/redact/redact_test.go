package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/redact"
)

// planted are secrets of the kinds that there are.
var planted = map[string]string{
	"API_KEY":     "sk-ant-api03-Zq8/w+Xy7==_aB3dEf6hIjKl9mNoPqRs",
	"DB_PASSWORD": `p@ss w"rd/it's\odd&<chars>%41`,
	"SHORT_TOKEN": "hunter22",
	"PRIVATE_KEY": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nqqq/+==\n-----END KEY-----",
	"UNICODE":     "schlüssel-für-🌳-alles",
}

func known(t testing.TB) *redact.Redactor {
	t.Helper()
	r, refused := redact.New(secrets(planted)...)
	if len(refused) > 0 {
		t.Fatalf("refused: %v", refused)
	}
	return r
}

func secrets(of map[string]string) []redact.Secret {
	var all []redact.Secret
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, redact.Secret{Name: name, Value: of[name]})
	}
	return all
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return strings.Trim(string(data), `"`)
}

// every encodes each byte that which takes as format says.
func every(s, format string, which func(i int) bool) string {
	var out strings.Builder
	for i, c := range []byte(s) {
		if which(i) {
			fmt.Fprintf(&out, format, c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

func all(int) bool { return true }

func wrapped(s string, width int) string {
	var out strings.Builder
	for i := 0; i < len(s); i += width {
		out.WriteString(s[i:min(i+width, len(s))] + "\n")
	}
	return out.String()
}

// forms are the ways in which a secret may stand in a text, each with a text around it.
var forms = map[string]func(string) string{
	"exact":              func(s string) string { return "the key is " + s + ", so." },
	"alone":              func(s string) string { return s },
	"twice":              func(s string) string { return s + s },
	"base64":             func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 after 1":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s + "yz")) },
	"base64 after 2":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u:" + s + "\n")) },
	"base64 after 3":     func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte("us:" + s)) },
	"base64 of URLs":     func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64 raw of URLs": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("ab" + s)) },
	"base64 in JSON": func(s string) string {
		return strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte(s)), "/", `\/`)
	},
	"base64 in a URL":   func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) },
	"base64 in lines":   func(s string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte("key="+s)), 16) },
	"hex":               func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":               func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"query":             func(s string) string { return "https://h/?k=" + url.QueryEscape(s) + "&b=1" },
	"path":              func(s string) string { return "https://h/" + url.PathEscape(s) + "/x" },
	"percent":           func(s string) string { return every(s, "%%%02X", all) },
	"percent, lower":    func(s string) string { return every(s, "%%%02x", all) },
	"percent, partly":   func(s string) string { return every(s, "%%%02x", func(i int) bool { return s[i] == '%' || i%3 == 0 }) },
	"percent, twice":    func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"JSON":              func(s string) string { return `{"key":"` + quote(s) + `"}` },
	"JSON with slashes": func(s string) string { return strings.ReplaceAll(quote(s), "/", `\/`) },
	"JSON in JSON":      func(s string) string { return quote(quote(s)) },
	"JSON, all escaped": func(s string) string {
		var out strings.Builder
		for _, unit := range utf16.Encode([]rune(s)) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
		return out.String()
	},
	"shell":             func(s string) string { return every(s, `\x%02x`, all) },
	"shell, in quotes":  func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"Python, in quotes": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'" },
	"shell, backslashes": func(s string) string {
		return every(s, `\%c`, func(i int) bool { return strings.IndexByte(` "'\&<>`, s[i]) >= 0 })
	},
	"HTML":                func(s string) string { return html.EscapeString(s) },
	"HTML in JSON":        func(s string) string { return quote(html.EscapeString(s)) },
	"quoted by Go":        strconv.Quote,
	"quoted in ASCII":     strconv.QuoteToASCII,
	"in lines":            func(s string) string { return wrapped(strings.ReplaceAll(s, "\n", ""), 7) },
	"after a backslash":   func(s string) string { return `\\n` + s },
	"after an open one":   func(s string) string { return "%4&am\\" + strings.TrimPrefix(s, "nothing") },
	"between its own":     func(s string) string { return s[:len(s)-1] + s + s[1:] },
	"in Unicode":          func(s string) string { return "ä🌳" + s + "🌳ß" },
	"behind its begin":    func(s string) string { return s[:4] + s[:6] + s },
	"base64 of its base":  func(s string) string { return s[:5] + base64.StdEncoding.EncodeToString([]byte(s)) + s },
	"behind a line break": func(s string) string { return "a\n\n" + s + "\n\nb" },
}

// left reports what is left of secrets in a text, in any form of those above.
func left(text string) string {
	for name, s := range planted {
		for form, made := range forms {
			if f := made(s); len(f) >= len(s) && strings.Contains(text, f) {
				return name + " as " + form
			}
		}
		if strings.Contains(text, s) {
			return name
		}
	}
	return ""
}

func TestForms(t *testing.T) {
	t.Parallel()
	r := known(t)
	n := 0
	for name, s := range planted {
		for form, made := range forms {
			n++
			text := made(s)
			got := r.String(text)
			if found := left(got); found != "" || !strings.Contains(got, "[redacted: "+name+"]") {
				t.Errorf("%s as %s: %q became %q", name, form, text, got)
			}
			if r.String(got) != got {
				t.Errorf("%s as %s: %q becomes something else", name, form, got)
			}
			if utf8.ValidString(text) && !utf8.ValidString(got) {
				t.Errorf("%s as %s: %q is not UTF-8", name, form, got)
			}
			if !r.Has(text) || r.Has(got) {
				t.Errorf("%s as %s: Has is wrong", name, form)
			}
		}
	}
	t.Logf("%d secrets in %d forms: %d texts, 0 left", len(planted), len(forms), n)
}

// TestEveryCut: each form, cut in two at each byte, and into single bytes.
func TestEveryCut(t *testing.T) {
	t.Parallel()
	r := known(t)
	n := 0
	for name, s := range planted {
		for form, made := range forms {
			text := made(s)
			want := r.String(text)
			stream := r.Stream()
			for cut := range len(text) + 1 {
				n++
				if got := stream.Write(text[:cut]) + stream.Write(text[cut:]) + stream.Flush(); got != want {
					t.Fatalf("%s as %s, cut at %d: %q, want %q", name, form, cut, got, want)
				}
			}
			var out strings.Builder
			for i := range len(text) {
				out.WriteString(stream.Write(text[i : i+1]))
			}
			if out.WriteString(stream.Flush()); out.String() != want {
				t.Fatalf("%s as %s, byte by byte: %q, want %q", name, form, out.String(), want)
			}
		}
	}
	t.Logf("%d cuts, 0 secrets left", n)
}

// TestOrdinaryTextIsNotHeldBack: what is shown is never more than two bytes behind,
// since some form begins with nearly each of the letters, and few with the same two.
func TestOrdinaryTextIsNotHeldBack(t *testing.T) {
	t.Parallel()
	stream := known(t).Stream()
	written, shown := "", ""
	for _, piece := range strings.SplitAfter(strings.Repeat("The oak grows,\n100% of them; item 7: Größe 🌳 x && y, end.\r\n", 3), " ") {
		written += piece
		shown += stream.Write(piece)
		if len(shown) < len(written)-2 {
			t.Errorf("of %q shown is %q", written, shown)
		}
	}
	if shown += stream.Flush(); shown != written {
		t.Errorf("of %q shown is %q", written, shown)
	}
	for _, step := range []struct{ piece, want string }{
		{"a sk-ant", "a "}, {"s and, ", "sk-ants and, "}, {"hunter2", ""}, {" ", "hunter2 "}, {"hunter", ""}, {"22!", "[redacted: SHORT_TOKEN]!"},
	} {
		if got := stream.Write(step.piece); got != step.want {
			t.Errorf("%q: shown is %q, want %q", step.piece, got, step.want)
		}
	}
}

func TestWithoutSecrets(t *testing.T) { //nolint:paralleltest // it counts allocations
	var none *redact.Redactor
	empty, _ := redact.New()
	text := strings.Repeat("text with \\ and % and &\n", 100)
	for _, r := range []*redact.Redactor{none, empty} {
		stream := r.Stream()
		if n := testing.AllocsPerRun(10, func() {
			if r.String(text) != text || stream.Write(text) != text || r.JSON(text) != text {
				t.Error("text was changed")
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	r, _ := redact.New(
		redact.Secret{Name: "K", Value: `odd"secret\value`}, redact.Secret{Name: "N", Value: "123456789012345"},
		redact.Secret{Name: "W", Value: "newsecretword"}, redact.Secret{Name: "J", Value: `{"a":"b","c":"d"}`},
	)
	for _, test := range []struct{ in, want string }{
		{`{"a": "x"}`, `{"a": "x"}`},
		{`{"a": "odd\"secret\\value", "b": [1, true, null]}`, `{"a": "[redacted: K]", "b": [1, true, null]}`},
		{`{"\u006fdd\"secret\\value":1}`, `{"[redacted: K]":1}`},
		{`[123456789012345, 1234567890123456]`, `["[redacted: N]", "[redacted: N]6"]`},
		{`{"a":"C:\newsecretword"}`, `{"a":"C:\newsecretword"}`},
		{`{"a":"C:\\newsecretword"}`, `{"a":"C:[redacted: W]"}`},
		{`{"x":{"a":"b","c":"d"}}`, `{"redacted":"[redacted: J]"}`},
		{`{"x":"{\"a\":\"b\",\"c\":\"d\"}<&>"}`, `{"x":"[redacted: J]<&>"}`},
		{`{"x": newsecretword`, `{"x": [redacted: W]`},
		{`"newsecretword"`, `"[redacted: W]"`},
	} {
		got := r.JSON(test.in)
		if got != test.want {
			t.Errorf("%s became %s, want %s", test.in, got, test.want)
		}
		if json.Valid([]byte(test.in)) && !json.Valid([]byte(got)) {
			t.Errorf("%s became %s, which is not JSON", test.in, got)
		}
	}
}
