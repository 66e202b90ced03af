package policy

import (
	"errors"
	"unicode/utf8"
)

// glob is a pattern for a whole text. * matches any characters, ? one character, [a-z] and [!a-z]
// one of a set, and \ escapes the next character. In a path, * and ? do not match a slash; **
// does, a/** also matches a itself, and **/ also matches nothing.
type glob []part

// part is an element of a pattern.
type part struct {
	kind    partKind
	literal rune
	spans   [][2]rune
	negated bool
}

type partKind uint8

const (
	literal    partKind = iota
	anyChar             // ?
	charSet             // [...]
	star                // *
	doubleStar          // **
)

var (
	errOpenSet  = errors.New("a [ has no ]; write \\[ for the character")
	errEmptySet = errors.New("a set of characters is empty, or a range in it is reversed")
	errEscape   = errors.New("there is a \\ at the end")
	errStars    = errors.New("there are more than two * in a row")
)

func parseGlob(text string) (glob, error) {
	var g glob
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch r {
		case '*':
			last := len(g) - 1
			switch {
			case last >= 0 && g[last].kind == doubleStar:
				return nil, errStars
			case last >= 0 && g[last].kind == star:
				g[last].kind = doubleStar
			default:
				g = append(g, part{kind: star})
			}
		case '?':
			g = append(g, part{kind: anyChar})
		case '[':
			p, rest, err := parseSet(text)
			if err != nil {
				return nil, err
			}
			g, text = append(g, p), rest
		case '\\':
			if text == "" {
				return nil, errEscape
			}
			r, size = utf8.DecodeRuneInString(text)
			text = text[size:]
			fallthrough
		default:
			g = append(g, part{literal: r})
		}
	}
	return g, nil
}

// parseSet parses a set after its opening bracket.
func parseSet(text string) (_ part, rest string, _ error) {
	p := part{kind: charSet}
	next := func() (r rune, escaped, ok bool) {
		if text == "" {
			return 0, false, false
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		if r == '\\' && text != "" {
			r, size = utf8.DecodeRuneInString(text)
			text = text[size:]
			return r, true, true
		}
		return r, false, true
	}
	if text != "" && (text[0] == '!' || text[0] == '^') {
		p.negated, text = true, text[1:]
	}
	for {
		low, escaped, ok := next()
		switch {
		case !ok:
			return part{}, "", errOpenSet
		case low == ']' && !escaped && len(p.spans) == 0:
			return part{}, "", errEmptySet
		case low == ']' && !escaped:
			return p, text, nil
		}
		high := low
		if len(text) > 1 && text[0] == '-' && text[1] != ']' {
			text = text[1:]
			if high, _, ok = next(); !ok {
				return part{}, "", errOpenSet
			}
		}
		if high < low {
			return part{}, "", errEmptySet
		}
		p.spans = append(p.spans, [2]rune{low, high})
	}
}

// match reports whether the pattern matches a whole text.
func (g glob) match(text string, path bool) bool {
	w := newMatchState(g, path)
	w.start()
	w.advance(text)
	return w.accepts()
}

// matchState is the set of positions in a pattern that the text so far may have reached. All
// positions are advanced together, so the time is bounded by the product of the lengths.
type matchState struct {
	glob
	path          bool
	current, next []bool
	alive         bool // current is not empty
}

func newMatchState(g glob, path bool) matchState {
	return matchState{glob: g, path: path, current: make([]bool, len(g)+1), next: make([]bool, len(g)+1)}
}

// start lets the text that follows match from the beginning of the pattern, in addition to the
// current positions.
func (w *matchState) start() {
	w.mark(w.current, 0, w.path)
	w.alive = true
}

// advance consumes a text.
func (w *matchState) advance(text string) {
	for _, r := range text {
		if !w.alive {
			return
		}
		w.alive = false
		clear(w.next)
		for i, p := range w.glob {
			switch {
			case !w.current[i]:
			case p.kind == doubleStar || p.kind == star && !(w.path && r == '/'):
				w.next[i] = true
				w.mark(w.next, i+1, w.path) // unlike **/ at its beginning, one that has matched something needs its slash
				w.alive = true
			case p.matchesRune(r, w.path):
				w.mark(w.next, i+1, w.path)
				w.alive = true
			}
		}
		w.current, w.next = w.next, w.current
	}
}

// merge adds the positions of another state and resets that.
func (w *matchState) merge(other *matchState) {
	for i, there := range other.current {
		w.current[i] = w.current[i] || there
	}
	w.alive = w.alive || other.alive
	other.reset()
}

// reset removes all positions.
func (w *matchState) reset() {
	clear(w.current)
	w.alive = false
}

// accepts reports whether the text so far matches the whole pattern.
func (w *matchState) accepts() bool {
	g, end := w.glob, len(w.glob)
	return w.current[end] || w.path && end > 2 && g[end-1].kind == doubleStar && g[end-2].isSlash() && w.current[end-2]
}

// mark marks a position in the pattern, and those that can be reached from it without consuming a
// character.
func (g glob) mark(at []bool, i int, path bool) {
	at[i] = true
	if i == len(g) || g[i].kind != star && g[i].kind != doubleStar {
		return
	}
	g.mark(at, i+1, path)
	begins := i == 0 || g[i-1].isSlash()
	if path && g[i].kind == doubleStar && begins && i+1 < len(g) && g[i+1].isSlash() {
		g.mark(at, i+2, path)
	}
}

// matchesPaths reports whether the pattern may match a clean path below the workspace.
func (g glob) matchesPaths() bool {
	dot := len(g) > 1 && g[0].kind == literal && g[0].literal == '.' && g[1].isSlash()
	return !dot && !g[len(g)-1].isSlash()
}

func (p part) isSlash() bool { return p.kind == literal && p.literal == '/' }

// matchesRune reports whether the element matches this one character.
func (p part) matchesRune(r rune, path bool) bool {
	switch p.kind {
	case literal:
		return r == p.literal
	case anyChar:
		return !(path && r == '/')
	case charSet:
		in := false
		for _, s := range p.spans {
			in = in || s[0] <= r && r <= s[1]
		}
		return in != p.negated && !(path && r == '/')
	}
	return false
}
