package redact

import (
	"cmp"
	"slices"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// region is a piece of text to replace.
type region struct {
	span
	shown string
}

// regions gives what to replace, in order and apart from each other, and up to where
// the text is known to be free of more. final says that no text comes behind this.
func (t *table) regions(text string, final bool) (found []region, safe int) {
	safe = len(text)
	if !final {
		safe -= excerpt.Unfinished(text)
	}
	var units [][]span // of each level
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

// before gives the last place up to safe that is within no escape and no region.
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

// widen makes a span begin and end where no escape is.
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

// within finds the escape that a place is within.
func within(at int, units []span) (span, bool) {
	i, _ := slices.BinarySearchFunc(units, at, func(u span, at int) int { return cmp.Compare(u.end, at+1) })
	if i < len(units) && units[i].start < at {
		return units[i], true
	}
	return span{}, false
}

// mergeOverlaps makes one of regions that overlap; it shows what the first of them shows.
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
