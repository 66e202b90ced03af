package redact

import (
	"cmp"
	"slices"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// region is a part of the text to replace.
type region struct {
	span
	shown string
}

// regions returns the non-overlapping parts to replace, in order, and the position up to which
// the text contains no others. final says that no more text follows.
func (t *table) regions(text string, final bool) (found []region, safe int) {
	safe = len(text)
	if !final {
		safe -= excerpt.Unfinished(text)
	}
	var units [][]span // per level
	for v, level := original(text), 0; ; level++ {
		scan(t, v.text, func(start int, f *form) bool {
			found = append(found, region{v.span(start, start+len(f.text)), f.shown})
			return true
		})
		if !final {
			safe = min(safe, v.rest, v.at(t.begun(v.text)))
		}
		if level == escapeLevels {
			break
		}
		next := v.next(final)
		units = append(units, next.units)
		if next.text == v.text {
			break
		}
		v = next
	}
	for i := range found {
		found[i].span = widen(found[i].span, units)
	}
	found = mergeOverlaps(found)
	return found, before(safe, found, units)
}

// before returns the last position up to safe that is inside no escape and no region.
func before(safe int, found []region, units [][]span) int {
	for {
		at := widen(span{safe, safe}, units).start
		for _, f := range found {
			if f.start < at && at < f.end {
				at = f.start
			}
		}
		if at == safe {
			return safe
		}
		safe = at
	}
}

// widen extends a span so that it does not start or end inside an escape.
func widen(s span, units [][]span) span {
	for changed := true; changed; {
		changed = false
		for _, level := range units {
			if u, ok := within(s.start, level); ok {
				s.start, changed = u.start, true
			}
			if u, ok := within(s.end, level); ok && s.end > s.start {
				s.end, changed = u.end, true
			}
		}
	}
	return s
}

// within returns the escape that contains a position.
func within(at int, units []span) (span, bool) {
	i, _ := slices.BinarySearchFunc(units, at, func(u span, at int) int { return cmp.Compare(u.end, at+1) })
	if i < len(units) && units[i].start < at {
		return units[i], true
	}
	return span{}, false
}

// mergeOverlaps merges overlapping regions. The result shows what the first of them shows.
func mergeOverlaps(found []region) []region {
	slices.SortFunc(found, func(a, b region) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.shown, b.shown))
	})
	var out []region
	for _, f := range found {
		if last := len(out) - 1; last >= 0 && f.start < out[last].end {
			out[last].end = max(out[last].end, f.end)
			continue
		}
		out = append(out, f)
	}
	return out
}
