package policy

import (
	"errors"
	"unicode/utf8"
)

// glob is a pattern over the whole of a text. * stands for any characters, ? for
// one, [a-z] and [!a-z] for one of a set, and \ takes its meaning from the next
// character. In a path * and ? do not reach over a slash; ** does, a/** is also
// a itself, and **/ may stand for nothing.
type glob []part

// part is a piece of a pattern.
type part struct {
	kind    partKind
	literal rune
	spans   [][2]rune
	negated bool
}

type partKind uint8

const (
	literal partKind = iota
	one              // ?
	set              // [...]
	some             // *
	deep             // **
)

var (
	errOpenSet  = errors.New("a [ has no ]; write \\[ for the character")
	errEmptySet = errors.New("a set of characters is empty or turned around")
	errEscape   = errors.New("a \\ stands at the end")
	errStars    = errors.New("more than two * stand together")
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
			case last >= 0 && g[last].kind == deep:
				return nil, errStars
			case last >= 0 && g[last].kind == some:
				g[last].kind = deep
			default:
				g = append(g, part{kind: some})
			}
		case '?':
			g = append(g, part{kind: one})
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

// parseSet reads a set whose [ has been read.
func parseSet(text string) (_ part, rest string, _ error) {
	p := part{kind: set}
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

// match reports whether the pattern is over the whole of a text.
func (g glob) match(text string, path bool) bool {
	w := newWays(g, path)
	w.begin()
	w.follow(text)
	return w.end()
}

// ways are the places in a pattern that a text may have led to so far. All are followed at
// once, so the time is bounded by the product of the lengths.
type ways struct {
	glob
	path     bool
	at, next []bool
	open     bool // there is one
}

func newWays(g glob, path bool) ways {
	return ways{glob: g, path: path, at: make([]bool, len(g)+1), next: make([]bool, len(g)+1)}
}

// begin has the text that is followed next begin the pattern, beside what has begun it before.
func (w *ways) begin() {
	w.reach(w.at, 0, w.path)
	w.open = true
}

// follow goes on with a text.
func (w *ways) follow(text string) {
	for _, r := range text {
		if !w.open {
			return
		}
		w.open = false
		clear(w.next)
		for i, p := range w.glob {
			switch {
			case !w.at[i]:
			case p.kind == deep || p.kind == some && !(w.path && r == '/'):
				w.reach(w.next, i, w.path)
				w.open = true
			case p.takes(r, w.path):
				w.reach(w.next, i+1, w.path)
				w.open = true
			}
		}
		w.at, w.next = w.next, w.at
	}
}

// join takes in the ways of another text, which end there.
func (w *ways) join(other *ways) {
	for i, there := range other.at {
		w.at[i] = w.at[i] || there
	}
	w.open = w.open || other.open
	other.none()
}

// none forgets all ways.
func (w *ways) none() {
	clear(w.at)
	w.open = false
}

// end reports whether one of the ways has come to the end of the pattern.
func (w *ways) end() bool {
	g, end := w.glob, len(w.glob)
	return w.at[end] || w.path && end > 2 && g[end-1].kind == deep && g[end-2].slash() && w.at[end-2]
}

// reach marks a place in the pattern, and those that are reached from it for nothing.
func (g glob) reach(at []bool, i int, path bool) {
	at[i] = true
	if i == len(g) || g[i].kind != some && g[i].kind != deep {
		return
	}
	g.reach(at, i+1, path)
	begins := i == 0 || g[i-1].slash()
	if path && g[i].kind == deep && begins && i+1 < len(g) && g[i+1].slash() {
		g.reach(at, i+2, path)
	}
}

func (p part) slash() bool { return p.kind == literal && p.literal == '/' }

// takes reports whether the part stands for this one character.
func (p part) takes(r rune, path bool) bool {
	switch p.kind {
	case literal:
		return r == p.literal
	case one:
		return !(path && r == '/')
	case set:
		in := false
		for _, s := range p.spans {
			in = in || s[0] <= r && r <= s[1]
		}
		return in != p.negated && !(path && r == '/')
	}
	return false
}
