package store

import (
	"fmt"
	"testing"
)

// TestDefinitionsAreBounded: of the definitions that are read, however many, those are held
// that were last asked for.
func TestDefinitionsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ size, most int }{
		"many":                 {10, maxDefinitions},
		"large":                {maxDefinitionBytes / 4, 4},
		"larger than all room": {maxDefinitionBytes + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, body := newDefinitionCache(), make([]byte, c.size)
			version := func(n int) string { return fmt.Sprint("v", n) }
			for n := range c.most {
				d.put(version(n), body)
			}
			d.get(version(0)) // it is asked for again, so the next one is the oldest
			d.put(version(c.most), body)
			d.put(version(c.most), body) // two have read it at once
			for n, want := range map[int]bool{0: c.most > 0, 1: false, c.most: c.most > 0} {
				if _, known := d.get(version(n)); known != want {
					t.Errorf("of %d versions, number %d is held: %t", c.most+1, n, known)
				}
			}
			if d.lru.Len() != c.most || d.bytes != c.most*c.size {
				t.Errorf("%d versions of %d bytes are held", d.lru.Len(), d.bytes)
			}
		})
	}
}
