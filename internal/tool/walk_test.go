package tool

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A walk gives the same files as a plain recursive one, in the order of their
// paths, whatever the size of its pages.
func TestWalkOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := setup(t)
		names := rapid.SliceOfN(rapid.StringMatching(`([ab.\-]{1,2}/){0,3}[ab.\-]{1,2}`), 0, 20).Draw(r, "names")
		for _, name := range names {
			name = filepath.Join(w.Dir(), filepath.Join("/", name)) // ".." goes nowhere
			if os.MkdirAll(filepath.Dir(name), 0o755) == nil {
				_ = os.WriteFile(name, nil, 0o644) // fails where a directory is: fine
			}
		}
		var want []string
		err := filepath.WalkDir(w.Dir(), func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				want = append(want, strings.TrimPrefix(name, w.Dir()+"/"))
			}
			return err
		})
		if err != nil {
			r.Fatal(err)
		}
		slices.Sort(want)
		for _, page := range []int{1, 2, walkPage} {
			var got []string
			k := walker{workspace: w, page: page, yield: func(name string, err error) bool {
				if err != nil {
					r.Fatal(err)
				}
				got = append(got, name)
				return true
			}}
			k.walk(t.Context(), ".", 0)
			if !slices.Equal(got, want) {
				r.Fatalf("pages of %d:\n got %q\nwant %q", page, got, want)
			}
		}
	})
}

func TestListHoldsOnePage(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 2500 {
		files = append(files, fmt.Sprintf("%04d", i), "")
	}
	w := setup(t, files...)
	entries, total, err := w.list(t.Context(), ".", "0099", 10)
	must(t, err)
	if len(entries) != 10 || total != 2400 || entries[0].name != "0100" || entries[9].name != "0109" {
		t.Errorf("%d of %d: %v", len(entries), total, entries)
	}
	if cap(entries) > 2048 {
		t.Errorf("room for %d entries", cap(entries))
	}
}

func TestWalkGoesOnAfterWhatItCannotRead(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", walkDepth+1)
	w := setup(t, "a", "x", "z", "x", deep+"lost", "x")
	want := "a\nz\n[skipped: 1 files or directories that could not be read]"
	check(t, w, "glob", []toolCase{{`{"pattern":"**"}`, want}})
	check(t, w, "grep", []toolCase{{`{"pattern":"x"}`, want}})
}
