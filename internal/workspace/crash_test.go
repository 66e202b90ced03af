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
	"testing/synctest"
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
			must(t, os.Remove(filepath.Join(dir, ".git/worktrees", id, "coppice-ready")))
		},
		"before the files": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".git/worktrees", id, "coppice-ready")))
			must(t, os.Remove(filepath.Join(dir, ".git/worktrees", id, "index")))
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id, "README")))
			write(t, filepath.Join(dir, ".git/worktrees", id, "index.lock"), "")
		},
		"with a lock": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".git/worktrees", id, "coppice-ready")))
			must(t, os.RemoveAll(filepath.Join(dir, ".coppice/worktrees", id)))
			write(t, filepath.Join(dir, ".git/worktrees", id, "locked"), "\n")
			write(t, filepath.Join(dir, ".git/refs/heads/coppice", id+".lock"), "")
		},
		"while it was removed": func(t *testing.T, dir, id string) {
			must(t, os.Remove(filepath.Join(dir, ".git/worktrees", id, "coppice-ready")))
			must(t, os.Remove(filepath.Join(dir, ".git/worktrees", id, "index")))
			must(t, os.Remove(filepath.Join(dir, ".coppice/worktrees", id, "README")))
		},
		"by somebody": func(t *testing.T, dir, id string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".coppice/worktrees", id)))
		},
		"by git": func(t *testing.T, dir, id string) {
			command(t, dir, "worktree", "remove", "-f", "-f", filepath.Join(dir, ".coppice/worktrees", id))
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
	must(t, os.RemoveAll(filepath.Join(w.dir, ".git/worktrees", id.String())))
	if got := place.ChangesNote(t.Context()); !strings.Contains(got, "has forgotten the worktree") {
		t.Errorf("it tells %q", got)
	}
	leave()
	if _, err := w.Enter(t.Context(), w.run("2", id, id)); err == nil || !strings.Contains(err.Error(), "has forgotten the worktree") {
		t.Errorf("entered again: %v", err)
	}
	if got := read(t, filepath.Join(place.Dir(), "work")); got != "mine" {
		t.Errorf("the work is %q", got)
	}
}

// TestCleaned: what git removes of what it takes no notice of does not cost anybody's
// work, nor the lock.
func TestCleaned(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	place, leave := w.grow("1", id)
	write(t, filepath.Join(place.Dir(), "work"), "mine")
	must(t, w.inRepository(t.Context(), w.dir, func(*repository) error {
		command(t, w.dir, "clean", "-fdx")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := w.inRepository(ctx, w.dir, func(*repository) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two have the lock: %v", err)
		}
		return nil
	}))
	if got := place.ChangesNote(t.Context()); !strings.Contains(got, "not committed") {
		t.Errorf("it tells %q", got)
	}
	leave()
	place, _ = w.grow("2", id)
	if got := read(t, filepath.Join(place.Dir(), "work")); got != "mine" {
		t.Errorf("the work is %q", got)
	}
}

// TestMarkBeside: a worktree whose mark lies beside it, as older workers have it, is one
// like others, also if the mark is lost.
func TestMarkBeside(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(t *testing.T, name string){
		"there": func(t *testing.T, name string) { write(t, name, "1\n") },
		"lost":  func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plant(t)
			id := newTask()
			place, leave := w.grow("1", id)
			leave()
			work := filepath.Join(place.Dir(), "work")
			write(t, work, "mine")
			must(t, os.Remove(filepath.Join(w.dir, ".git/worktrees", id.String(), "coppice-ready")))
			mark(t, place.Dir()+".ready")
			place, leave = w.grow("2", id)
			if got := read(t, work); got != "mine" {
				t.Errorf("the work is %q", got)
			}
			must(t, os.Remove(work))
			if got := w.end(place, leave); got != "" {
				t.Errorf("it tells %q", got)
			}
			w.clean()
		})
	}
}

// TestOlderWorkersFindTheirMark: a worker of the release before removes a worktree that has
// no mark beside it.
func TestOlderWorkersFindTheirMark(t *testing.T) {
	t.Parallel()
	w := plant(t)
	outer, inner := newTask(), newTask()
	place, leave := w.grow("7", outer, inner)
	if got := read(t, place.Dir()+".ready"); got != "7\n" {
		t.Errorf("the mark says %q", got)
	}
	if got := read(t, filepath.Join(w.dir, ".coppice/worktrees", outer.String()+".ready")); got != "\n" {
		t.Errorf("that of the worktree above says %q", got)
	}
	leave()
}

// TestTheEndOfARunWaitsForNoLockForEver: an agent may have it for good.
func TestTheEndOfARunWaitsForNoLockForEver(t *testing.T) {
	t.Parallel()
	w := plant(t)
	place, leave := w.grow("1", newTask())
	file, err := os.OpenFile(filepath.Join(w.dir, lockName), os.O_RDWR, 0)
	must(t, err)
	must(t, lock(t.Context(), file))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if got := place.ChangesNote(t.Context()); !strings.Contains(got, "could not be looked at") {
			t.Errorf("it tells %q", got)
		}
		if waited := time.Since(began); waited != changesLockTimeout {
			t.Errorf("it has waited for %v", waited)
		}
	})
	must(t, file.Close())
	leave()
}

// TestLock: who waits for the lock gets it when it is free, however long that takes, and
// stops when it is told to.
func TestLock(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	write(t, name, "")
	open := func(t *testing.T) *os.File {
		file, err := os.Open(name)
		must(t, err)
		return file
	}
	synctest.Test(t, func(t *testing.T) {
		first, second, third := open(t), open(t), open(t)
		must(t, lock(t.Context(), first))
		got := make(chan error, 1)
		go func() { got <- errors.Join(lock(context.WithoutCancel(t.Context()), second), second.Close()) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := lock(ctx, third); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a lock that somebody has: %v", err)
		}
		must(t, first.Close())
		must(t, <-got)
		must(t, third.Close())
	})
}

// TestCommitsOutliveTheirDirectory: whoever removes the directory of a worktree does not remove
// what was committed there.
func TestCommitsOutliveTheirDirectory(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, w *wood, dir string){
		"removed": func(t *testing.T, _ *wood, dir string) { must(t, os.RemoveAll(dir)) },
		"by git":  func(t *testing.T, w *wood, dir string) { command(t, w.dir, "worktree", "remove", "-f", "-f", dir) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plant(t)
			id := newTask()
			place, leave := w.grow("1", id)
			command(t, place.Dir(), "commit", "-q", "--allow-empty", "-m", "work")
			remove(t, w, place.Dir())
			if got := w.end(place, leave); !strings.HasSuffix(got, ": 1 commit, the directory was removed]") {
				t.Errorf("it tells %q", got)
			}
			place, leave = w.grow("2", id)
			if got := command(t, place.Dir(), "log", "-1", "--format=%s"); got != "work" {
				t.Errorf("resumed, it goes on from %q", got)
			}
			command(t, place.Dir(), "reset", "-q", "--hard", "main")
			remove(t, w, place.Dir())
			if got := w.end(place, leave); got != "" {
				t.Errorf("without commits it tells %q", got)
			}
		})
	}
}

// TestWhatCannotBeLookedAtStays: a worktree that cannot be looked at for a while is not taken for
// removed.
func TestWhatCannotBeLookedAtStays(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	place, leave := w.grow("1", id)
	write(t, filepath.Join(place.Dir(), "work"), "mine")
	dir := filepath.Join(w.dir, ".coppice")
	must(t, os.Rename(dir, dir+"-meanwhile"))
	must(t, os.Symlink(filepath.Base(dir), dir)) // leads to itself
	if got := place.ChangesNote(t.Context()); !strings.Contains(got, "could not be looked at") {
		t.Errorf("it tells %q", got)
	}
	if err := place.RemoveIfUnchanged(t.Context()); err == nil {
		t.Error("it was looked at")
	}
	leave()
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+"-meanwhile", dir))
	place, leave = w.grow("2", id)
	if got := read(t, filepath.Join(place.Dir(), "work")); got != "mine" {
		t.Errorf("the work is %q", got)
	}
	leave()
}
