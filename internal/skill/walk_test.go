package skill

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func opened(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// TestFirstEntries: those of the lowest names, in whatever order the system has them.
func TestFirstEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const all = 3000
	files := map[string]string{}
	for i := range all {
		files[fmt.Sprintf("%04d", i)] = ""
	}
	write(t, dir, files)
	for _, n := range []int{1, 10, all - 1, all, all + 1} {
		entries, more, err := firstEntries(t.Context(), opened(t, dir), ".", n)
		if err != nil || len(entries) != min(n, all) || more != (n < all) {
			t.Fatalf("%d: %d entries, more: %t, %v", n, len(entries), more, err)
		}
		for i, e := range entries {
			if e.Name() != fmt.Sprintf("%04d", i) {
				t.Fatalf("%d: entry %d is %s", n, i, e.Name())
			}
		}
		if cap(entries) > 4*(n+1024) {
			t.Errorf("%d: room for %d entries is held", n, cap(entries))
		}
	}
	if _, _, err := firstEntries(t.Context(), opened(t, dir), "0000", 1); err == nil {
		t.Error("a file has entries")
	}
}

func TestListsOfFilesAreBounded(t *testing.T) {
	t.Parallel()
	deep, long := strings.Repeat("d/", maxDepth), map[string]string{"SKILL.md": ""}
	for i := range maxFiles {
		long[fmt.Sprintf("%03d", i)] = ""
	}
	full := map[string]string{"x": ""}
	for name := range long {
		full[name] = ""
	}
	for name, c := range map[string]struct {
		files map[string]string
		left  int
		want  int
		cut   bool
	}{
		"just deep enough":  {map[string]string{"a": "", deep + "b": ""}, maxEntries, 2, false},
		"too deep":          {map[string]string{"a": "", deep + "d/b": ""}, maxEntries, 1, true},
		"just long enough":  {long, maxEntries, maxFiles, false},
		"too long":          {full, maxEntries, maxFiles, true},
		"too many entries":  {map[string]string{"a": "", "b": "", "c": "", "d": ""}, 3, 3, true},
		"too many below":    {map[string]string{"a/b/c": "", "d/e": ""}, 3, 0, true},
		"as many as may be": {map[string]string{"a/b": "", "c": ""}, 3, 2, false},
	} {
		dir := t.TempDir()
		write(t, dir, c.files)
		l := lister{root: opened(t, dir), left: c.left}
		if err := l.list(t.Context(), ".", 0); err != nil || len(l.files) != c.want || l.cut != c.cut || !slices.IsSorted(l.files) {
			t.Errorf("%s: %d files, cut: %t, %v", name, len(l.files), l.cut, err)
		}
	}
}
