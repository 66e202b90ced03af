package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOwner: a worker run by root makes worktrees in the repository of another user, and
// all of it is his.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	w := plant(t)
	const uid, gid = 1234, 1235
	each := func(do func(name string)) {
		must(t, filepath.WalkDir(w.dir, func(name string, _ fs.DirEntry, err error) error {
			must(t, err)
			do(name)
			return nil
		}))
	}
	each(func(name string) { must(t, os.Chown(name, uid, gid)) })
	outer, inner := newTask(), newTask()
	a, leaveA := w.grow("1", outer)
	b, leaveB := w.grow("1", outer, inner)
	if got := use(t, b.Workspace, "read", `{"path":"README"}`); got == "" {
		t.Error("nothing is there")
	}
	each(func(name string) {
		info, err := os.Lstat(name)
		must(t, err)
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != uid || stat.Gid != gid {
			t.Errorf("%s belongs to %d:%d", name, stat.Uid, stat.Gid)
		}
	})
	w.end(b, leaveB)
	w.end(a, leaveA)
	each(func(name string) { must(t, os.Lchown(name, 0, 0)) }) // git refuses others' repositories
	w.clean()
}
