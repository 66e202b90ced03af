package redact

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// A table finds forms by groups of four bytes, and looks only at every fifth position of a
// text. A form has at least eight bytes, so one of its first five groups is at such a position.
const (
	gram   = 4
	stride = minSecret - gram + 1

	filterBits = 17
	mixing     = 2654435761 // Knuth's multiplier
)

// table contains all forms of all secrets. It is immutable.
type table struct {
	forms   []form // sorted by text
	anchors map[uint32][]anchor
	filter  [1 << filterBits / 64]uint64 // groups that may be in anchors
	starts  [1 << 16 / 64]uint64         // pairs of bytes that start a form
	first   [256]bool                    // bytes that start a form
	longest int
	scratch sync.Pool // of two buffers
}

type form struct{ text, shown string }

// anchor is a form that has a group at an offset.
type anchor struct{ form, offset int }

func newTable(secrets []Secret) *table {
	t := &table{anchors: map[uint32][]anchor{}}
	seen := map[string]bool{}
	for _, s := range secrets {
		for _, text := range forms(s.Value) {
			if !seen[text] {
				seen[text] = true
				t.forms = append(t.forms, form{text, placeholder(s.Name)})
			}
		}
	}
	slices.SortFunc(t.forms, func(a, b form) int { return cmp.Compare(a.text, b.text) })
	for i, f := range t.forms {
		t.longest = max(t.longest, len(f.text))
		t.first[f.text[0]] = true
		two := uint(f.text[0])<<8 | uint(f.text[1])
		t.starts[two/64] |= 1 << (two % 64)
		for offset := range stride {
			g := gramAt(f.text, offset)
			h := g * mixing >> (32 - filterBits)
			t.filter[h/64] |= 1 << (h % 64)
			t.anchors[g] = append(t.anchors[g], anchor{i, offset})
		}
	}
	return t
}

func gramAt(text string, i int) uint32 {
	_ = text[i+3]
	return uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16 | uint32(text[i+3])<<24
}

// scan calls found for each form in a text, until it returns false.
func scan[T string | []byte](t *table, text T, found func(start int, f *form) (goOn bool)) {
	for p := 0; p+gram <= len(text); p += stride {
		g := uint32(text[p]) | uint32(text[p+1])<<8 | uint32(text[p+2])<<16 | uint32(text[p+3])<<24
		h := g * mixing >> (32 - filterBits)
		if t.filter[h/64]>>(h%64)&1 == 0 {
			continue
		}
		for _, a := range t.anchors[g] {
			f, start := &t.forms[a.form], p-a.offset
			end := start + len(f.text)
			if start >= 0 && end <= len(text) && string(text[start:end]) == f.text && !found(start, f) {
				return
			}
		}
	}
}

func in[T string | []byte](t *table, text T) (found bool) {
	scan(t, text, func(int, *form) bool {
		found = true
		return false
	})
	return found
}

// any reports whether a text contains a form, plain or escaped.
func (t *table) any(text string) bool {
	if in(t, text) {
		return true
	}
	buffers, ok := t.scratch.Get().(*[2][]byte)
	if !ok {
		buffers = new([2][]byte)
	}
	defer t.scratch.Put(buffers)
	out, changed := unescapeOnce(buffers[0][:0], text)
	buffers[0] = out
	for level := 1; changed; level++ {
		if in(t, out) {
			return true
		}
		if level == escapeLevels {
			return false
		}
		to := &buffers[level%2]
		out, changed = unescapeOnce((*to)[:0], out)
		*to = out
	}
	return false
}

// begun returns where the longest suffix of a text starts that may become a form. It is the
// length of the text if there is none.
func (t *table) begun(text string) int {
	for i := max(0, len(text)-t.longest+1); i < len(text); i++ {
		if !t.first[text[i]] {
			continue
		}
		if i+1 < len(text) {
			if two := uint(text[i])<<8 | uint(text[i+1]); t.starts[two/64]>>(two%64)&1 == 0 {
				continue
			}
		}
		tail := text[i:]
		j, same := slices.BinarySearchFunc(t.forms, tail, func(f form, tail string) int { return cmp.Compare(f.text, tail) })
		if same {
			j++
		}
		if j < len(t.forms) && strings.HasPrefix(t.forms[j].text, tail) {
			return i
		}
	}
	return len(text)
}
