package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/internal/tool"
)

// TestWorkspaceOfAnotherUser: root's worker and a checkout that is not root's. Its commands go
// on in what its file tools have changed, and its sub-agents get worktrees.
func TestWorkspaceOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := plant(t)
	if os.Geteuid() == 0 {
		const user = 1000
		must(t, filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, user, user)
		}))
	}
	root, _ := enter(t, w.Places, w.run("1", newTask()))
	const look = `{"path":"README"}`
	seen := []tool.Past{{Tool: "read", Input: []byte(look), Text: use(t, root.Workspace, "read", look)}}
	edit, _ := tool.Lookup(tool.Builtin(), "edit")
	edit.Call(t.Context(), tool.Call{
		Input: []byte(`{"path":"README","old_string":"hello","new_string":"bye"}`), Workspace: root.Workspace, Past: slices.Values(seen),
	})
	use(t, root.Workspace, "write", `{"path":"pkg/a.go","content":"package pkg\n"}`)
	if got := read(t, filepath.Join(w.dir, "README")); got != "bye\n" {
		t.Fatalf("the file has %q", got)
	}
	if got := w.bash(root.Workspace, "echo >> README && echo >> pkg/a.go && rm -r pkg && git checkout -q README && echo all"); got != "all" {
		t.Errorf("a command got %q", got)
	}
	id := newTask()
	place, leave := w.grow("1", id)
	use(t, place.Workspace, "write", `{"path":"new.go","content":"package new\n"}`)
	if got := w.bash(place.Workspace, "git add -A && git -c user.name=t -c user.email=t@localhost commit -q -m new && echo all"); got != "all" {
		t.Errorf("in a worktree a command got %q", got)
	}
	if kept := w.end(place, leave); !strings.Contains(kept, "1 commit") {
		t.Errorf("it tells %q", kept)
	}
}

// TestGitDirIsTheOwners: git may run as him who has the worktree, and its directory with it.
func TestGitDirIsTheOwners(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	place, leave := w.grow("1", id)
	defer leave()
	user := os.Getuid()
	if user == 0 {
		user = 1000
		must(t, os.Lchown(place.Dir(), user, user))
	}
	must(t, w.inRepository(t.Context(), w.dir, func(repo *repository) error {
		dir, err := repo.makeGitDir(place.own[0], "0123", "sha1")
		if err != nil {
			return err
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if is := info.Sys().(*syscall.Stat_t); int(is.Uid) != user {
				t.Errorf("%s belongs to user %d, not %d", path, is.Uid, user)
			}
			return nil
		})
	}))
}
