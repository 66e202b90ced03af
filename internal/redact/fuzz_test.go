package redact_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/redact"
)

// FuzzStream: a text in any pieces is what the whole text is, and clean.
func FuzzStream(f *testing.F) {
	for _, s := range planted {
		for _, made := range forms {
			f.Add("a "+made(s)+" b", "hunter22", []byte{3, 1, 0, 7})
		}
	}
	f.Add(`abababababab`, "abababab", []byte{1})
	f.Add(`ab\u0061ba%62ab\\u0061b&#97;bab`, "abababab", []byte{2, 1})
	f.Fuzz(func(t *testing.T, text, secret string, cuts []byte) {
		r, _ := redact.New(append(secrets(planted), redact.Secret{Name: "MORE", Value: secret})...)
		want := r.String(text)
		if utf8.ValidString(text) && !utf8.ValidString(want) {
			t.Errorf("%q became %q", text, want)
		}
		stream := r.Stream()
		var out strings.Builder
		rest := text
		for i := 0; len(cuts) > 0 && len(rest) > 0; i++ {
			n := min(int(cuts[i%len(cuts)])+i%2, len(rest))
			piece := stream.Write(rest[:n])
			if utf8.ValidString(text) && !utf8.ValidString(piece) {
				t.Errorf("a piece of %q is %q", text, piece)
			}
			out.WriteString(piece)
			rest = rest[n:]
		}
		out.WriteString(stream.Write(rest) + stream.Flush())
		if out.String() != want {
			t.Errorf("%q in pieces became %q, want %q", text, out.String(), want)
		}
		if json.Valid([]byte(text)) && !json.Valid([]byte(r.JSON(text))) {
			t.Errorf("%q became %q", text, r.JSON(text))
		}
	})
}
