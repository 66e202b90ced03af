package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSubmodules: what was done in a submodule, or to what a worktree says of it, is kept.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	update := func(t *testing.T, dir string) {
		t.Helper()
		command(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string // empty: nothing is kept
	}{
		"untouched": {func(*testing.T, string) {}, ""},
		"removed":   {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "sub"))) }, ""},
		"commit": {func(t *testing.T, dir string) {
			update(t, dir)
			command(t, filepath.Join(dir, "sub"), "commit", "-q", "--allow-empty", "-m", "work")
		}, "submodules with files"},
		"staged commit": {func(t *testing.T, dir string) {
			update(t, dir)
			command(t, filepath.Join(dir, "sub"), "commit", "-q", "--allow-empty", "-m", "work")
			command(t, dir, "add", "sub")
		}, "changes that are not committed, submodules with files"},
		"commit in what is empty again": {func(t *testing.T, dir string) {
			update(t, dir)
			command(t, filepath.Join(dir, "sub"), "commit", "-q", "--allow-empty", "-m", "work")
			command(t, dir, "submodule", "--quiet", "deinit", "--force", "sub")
		}, "submodules with files"},
		"a file": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "sub/file"), "x") }, "submodules with files"},
		"a file in its place": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "sub")))
			write(t, filepath.Join(dir, "sub"), "x")
		}, "submodules with files"},
		"staged": {func(t *testing.T, dir string) {
			command(t, dir, "update-index", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",sub")
		}, "changes that are not committed"},
		"staged, and said to be ignored": {func(t *testing.T, dir string) {
			command(t, dir, "update-index", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",sub")
			command(t, filepath.Dir(filepath.Dir(filepath.Dir(dir))), "config", "diff.ignoreSubmodules", "all")
		}, "changes that are not committed"},
		"no submodule any more": {func(t *testing.T, dir string) { command(t, dir, "rm", "-q", "--cached", "sub") }, "changes that are not committed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, other := plant(t), plant(t)
			command(t, w.dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.dir, "sub")
			command(t, w.dir, "config", "-f", ".gitmodules", "submodule.sub.ignore", "all")
			command(t, w.dir, "add", "-A")
			command(t, w.dir, "commit", "-q", "-m", "with a submodule")
			id := newTask()
			place, leave := w.grow("1", id)
			dir := place.Dir()
			c.change(t, dir)
			got := w.end(place, leave)
			if c.want == "" {
				if got != "" {
					t.Errorf("it tells %q", got)
				}
				w.clean()
				return
			}
			if !strings.HasSuffix(got, ": "+c.want+"]") {
				t.Errorf("it tells %q, want %q", got, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "README")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNothingOfASubmoduleRuns has a submodule that names programs, and asks to be looked
// at.
func TestNothingOfASubmoduleRuns(t *testing.T) {
	t.Parallel()
	w, other := plant(t), plant(t)
	command(t, w.dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.dir, "sub")
	command(t, w.dir, "config", "-f", ".gitmodules", "submodule.sub.ignore", "none")
	command(t, w.dir, "add", "-A")
	command(t, w.dir, "commit", "-q", "-m", "with a submodule")
	id := newTask()
	place, leave := w.grow("1", id)
	command(t, place.Dir(), "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	sub := filepath.Join(place.Dir(), "sub")
	script, trace := filepath.Join(place.Dir(), ".git-trap"), filepath.Join(place.Dir(), "ran")
	write(t, script, "#!/bin/sh\necho ran > "+trace+"\ncat\n")
	must(t, os.Chmod(script, 0o755))
	for _, key := range []string{"core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.external", "alias.status"} {
		command(t, sub, "config", key, script)
	}
	write(t, filepath.Join(sub, ".gitattributes"), "* filter=evil\n")
	write(t, filepath.Join(sub, "README"), "changed\n")
	if got := w.end(place, leave); !strings.Contains(got, "submodules with files") {
		t.Errorf("it tells %q", got)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a program of the submodule has run")
	}
	if err := tryGit(sub, "status"); err != nil {
		t.Log(err)
	}
	if _, err := os.Stat(trace); err != nil {
		t.Errorf("the trap would not have sprung: %v", err)
	}
}

// TestGitlinks reads a list in pieces of every size.
func TestGitlinks(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("1", 40)
	list := "100644 " + id + " 0\ta\x00160000 " + id + " 0\tempty one\x00100644 " + id + " 0\t160000 \tb\x00160000 " + id + " 0\tfull\x00100644 " + id + " 0\tz\x00"
	for size := 1; size <= len(list); size++ {
		var asked []string
		links := &gitlinks{isNonEmpty: func(name string) bool {
			asked = append(asked, name)
			return name == "full"
		}}
		for piece := range slices.Chunk([]byte(list), size) {
			if n, err := links.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := strings.Join(asked, ","); got != "empty one,full" || !links.found {
			t.Errorf("in pieces of %d: it asks for %q", size, got)
		}
	}
	if _, err := (&gitlinks{}).Write(make([]byte, maxEntry+1)); err != nil {
		t.Error("empty entries:", err)
	}
	if _, err := (&gitlinks{}).Write([]byte(strings.Repeat("x", maxEntry+1))); err == nil {
		t.Error("it holds an entry without an end")
	}
}
