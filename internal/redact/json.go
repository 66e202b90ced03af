package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns a JSON text without secrets, which is still valid JSON. It replaces text inside
// strings, including names of members. A number that is a secret becomes a string. Text that is
// not JSON is treated like any text.
func (r *Redactor) JSON(text string) string {
	t := r.secrets()
	if t == nil || !t.any(text) {
		return text
	}
	if !json.Valid([]byte(text)) {
		return r.String(text)
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		end := tokenEnd(text, i)
		out.WriteString(r.token(text[i:end]))
		i = end
	}
	clean := out.String()
	if across, ok := t.across(clean); ok {
		return `{"redacted":` + quoted(across.shown) + `}`
	}
	return clean
}

// across finds a secret that is itself JSON and spans several tokens. A match inside one token
// does not count when its escapes are undone.
func (t *table) across(text string) (region, bool) {
	if !t.any(text) {
		return region{}, false
	}
	found, _ := t.regions(text, true)
	end := 0
	for _, f := range found {
		for end <= f.start {
			end = tokenEnd(text, end)
		}
		if f.end > end {
			return f, true
		}
	}
	return region{}, false
}

// tokenEnd returns where a string ends, or the text between two strings or punctuation
// characters.
func tokenEnd(text string, i int) int {
	const punctuation = "{}[],: \t\r\n"
	switch {
	case text[i] == '"':
		for i++; text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		return i + 1
	case strings.IndexByte(punctuation, text[i]) >= 0:
		return i + 1
	}
	if n := strings.IndexAny(text[i:], punctuation+`"`); n >= 0 {
		return i + n
	}
	return len(text)
}

func (r *Redactor) token(token string) string {
	plain := token
	if token[0] == '"' && json.Unmarshal([]byte(token), &plain) != nil {
		return token
	}
	if clean := r.String(plain); clean != plain {
		return quoted(clean)
	}
	return token
}

func quoted(text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return `""` // a string always has a JSON form
	}
	return strings.TrimSuffix(out.String(), "\n")
}
