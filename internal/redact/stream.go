package redact

import "strings"

// Stream takes secrets out of text that comes in pieces. What may be the beginning of
// a secret is held back until that is known; ordinary text is not. What it gives is
// all in all what [Redactor.String] gives for the whole text. It is for one goroutine.
type Stream struct {
	redactor *Redactor
	held     string
}

// maxHeld bounds what is held back, in bytes; a text that always goes on as a secret
// might is cut there.
const maxHeld = 4 * maxSecret

// Stream begins a text.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Write takes a piece of text and gives what can be shown by now.
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

// Flush ends the text and gives what was held back. The stream can be used for
// another text.
func (s *Stream) Flush() string {
	text := s.held
	s.held = ""
	return s.redactor.String(text)
}

// Drop forgets what was held back.
func (s *Stream) Drop() { s.held = "" }

// replaced gives text with what is shown in the place of regions. Those behind it are
// left out.
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
