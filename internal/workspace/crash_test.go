package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tryGit runs git as somebody who works in a directory would; it may fail.
func tryGit(dir string, args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// everything lists all that is below a directory, with sizes.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			fmt.Fprintln(&all, name, info.Size())
		}
		return err
	}))
	return all.String()
}

// TestCutOff makes worktrees that were cut off at every step of the making. The next
// attempt finds nothing in its way.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(t *testing.T, dir, id string){
		"before the mark": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id+".ready")))
		},
		"before the files": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id+".ready")))
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id, "README")))
			write(t, filepath.Join(dir, ".git/worktrees", id, "index.lock"), "")
		},
		"before git knew": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id+".ready")))
			must(t, os.RemoveAll(filepath.Join(dir, ".git/worktrees", id)))
		},
		"with a lock": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id+".ready")))
			must(t, os.RemoveAll(filepath.Join(dir, ".coppice/worktrees", id)))
			write(t, filepath.Join(dir, ".git/worktrees", id, "locked"), "\n")
			write(t, filepath.Join(dir, ".git/refs/heads/coppice", id+".lock"), "")
		},
		"while it was removed": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id+".ready")))
			must(t, os.RemoveAll(filepath.Join(dir, ".coppice/worktrees", id)))
		},
		"by somebody": func(t *testing.T, dir, id string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".coppice/worktrees", id)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plant(t)
			id := newTask()
			_, leave := w.grow("1", id)
			leave()
			cut(t, w.dir, id.String())
			place, leave := w.grow("2", id)
			if got := command(t, place.Dir(), "status", "--porcelain", "--branch"); got != "## coppice/"+id.String() {
				t.Errorf("it finds %q", got)
			}
			if got := read(t, filepath.Join(place.Dir(), "README")); got != "hello\n" {
				t.Errorf("it reads %q", got)
			}
			w.end(place, leave)
			w.clean()
		})
	}
}

// TestForgotten: work that git does not know of any more is not thrown away.
func TestForgotten(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	place, leave := w.grow("1", id)
	write(t, filepath.Join(place.Dir(), "work"), "mine")
	leave()
	must(t, os.RemoveAll(filepath.Join(w.dir, ".git/worktrees", id.String())))
	if _, err := w.Enter(t.Context(), w.run("2", id, id)); err == nil || !strings.Contains(err.Error(), "has forgotten the worktree") {
		t.Errorf("entered again: %v", err)
	}
	if got := read(t, filepath.Join(place.Dir(), "work")); got != "mine" {
		t.Errorf("the work is %q", got)
	}
}

// TestLock: who waits for the lock gets it when it is free, and stops when it is told to.
func TestLock(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, root.Close()) })
	unlock, err := lock(t.Context(), root, "lock")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, root, "lock"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that somebody has: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		again, err := lock(context.WithoutCancel(t.Context()), root, "lock")
		if err == nil {
			err = again()
		}
		got <- err
	}()
	must(t, unlock())
	must(t, <-got)
}
