package tool

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/sandbox"
)

// TestOwners: what a worker run by root makes and changes belongs to whom the directory,
// or the file, belonged before.
func TestOwners(t *testing.T) {
	t.Parallel()
	ours, theirs := owner{1234, 1235}, owner{1236, 1237}
	if os.Geteuid() != 0 { // who can give nothing away
		ours, theirs = owner{os.Getuid(), os.Getgid()}, owner{os.Getuid(), os.Getgid()}
	}
	w := setup(t, "README", "hello\n", "theirs", "x\n")
	must(t, filepath.WalkDir(w.Dir(), func(name string, _ fs.DirEntry, err error) error {
		must(t, err)
		return os.Chown(name, ours.uid, ours.gid)
	}))
	must(t, os.Chown(filepath.Join(w.Dir(), "theirs"), theirs.uid, theirs.gid))
	for call, want := range map[string]string{
		`edit {"path":"README","old_string":"hello","new_string":"bye"}`: "Replaced 1 occurrence, on line 1",
		`edit {"path":"theirs","old_string":"x","new_string":"y"}`:       "Replaced 1 occurrence, on line 1",
		`write {"path":"new","content":"x"}`:                             "Made the file: 1 bytes",
		`write {"path":"made/for/new","content":"x"}`:                    "Made the file: 1 bytes",
	} {
		c := &talk{t: t, w: w}
		c.call("read", `{"path":"README"}`)
		c.call("read", `{"path":"theirs"}`)
		c.does(call, want)
	}
	w.Excerpt("x", strings.Repeat("x", 2000), 1000)
	output, err := w.createOutput(outputFile("call"))
	must(t, err)
	must(t, output.Close())
	found := 0
	must(t, filepath.WalkDir(w.Dir(), func(name string, d fs.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		want := ours
		if d.Name() == "theirs" {
			want = theirs
		}
		if got, err := ownerOf(info); err != nil || got != want {
			t.Errorf("%s belongs to %v, %v, not to %v", name, got, err, want)
		}
		found++
		return nil
	}))
	if found < 12 {
		t.Errorf("%d files and directories are there", found)
	}
	confined, err := sandbox.New(sandbox.Config{Environ: []string{"PATH=" + os.Getenv("PATH")}})
	must(t, err)
	command := line(t, "for f in README new made/for/new made/for/another .coppice/output/*; do echo more >> $f || exit 1; done")
	if done := NewBash(confined, false, nil).Call(t.Context(), Call{Input: command, Workspace: w, Label: "call"}).(Done); done.IsError {
		t.Errorf("a command: %s", done.Text)
	}
}
