package redact

import "strings"

// Stream redacts text that arrives in pieces. It holds back what may be the start of a secret
// until that is decided; it does not delay other text. In total it returns what
// [Redactor.String] returns for the whole text. It is not safe for concurrent use.
type Stream struct {
	redactor *Redactor
	held     string
}

// maxHeld bounds the held text, in bytes. A text that continues to match is cut there.
const maxHeld = 4 * maxSecret

// Stream starts a text.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Write adds a piece of text and returns what can be shown so far.
func (s *Stream) Write(piece string) string {
	t := s.redactor.secrets()
	if t == nil && s.held == "" {
		return piece
	}
	text := s.held + piece
	if t == nil || len(text) > maxHeld {
		s.held = ""
		return s.redactor.String(text)
	}
	found, safe := t.regions(text, false)
	s.held = strings.Clone(text[safe:])
	return replaced(text[:safe], found)
}

// Flush ends the text and returns the held rest. The stream can then be used for another text.
func (s *Stream) Flush() string {
	text := s.held
	s.held = ""
	return s.redactor.String(text)
}

// Drop discards the held text.
func (s *Stream) Drop() { s.held = "" }

// replaced returns text with the regions replaced. It ignores regions after the end of the
// text.
func replaced(text string, found []region) string {
	if len(found) == 0 {
		return text
	}
	var out strings.Builder
	end := 0
	for _, f := range found {
		if f.start >= len(text) {
			break
		}
		out.WriteString(text[end:f.start])
		out.WriteString(f.shown)
		end = f.end
	}
	out.WriteString(text[end:])
	return out.String()
}
