package workspace

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestUsedStays: a worktree is not removed under those who still work in it when the run
// that owns it has ended.
func TestUsedStays(t *testing.T) {
	t.Parallel()
	for name, stay := range map[string]func(t *testing.T, w *wood, own *Place) *Place{
		"an agent": func(t *testing.T, w *wood, own *Place) *Place {
			place, err := w.Enter(t.Context(), w.run("1", newTask(), own.own[0].id))
			must(t, err)
			return place
		},
		"an agent of another worker": func(t *testing.T, w *wood, own *Place) *Place {
			place, err := places(t, Config{Dir: w.dir}).Enter(t.Context(), w.run("1", newTask(), own.own[0].id))
			must(t, err)
			return place
		},
		"a command": func(_ *testing.T, _ *wood, own *Place) *Place { return own.Share() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plant(t)
			id := newTask()
			own, leave := w.grow("1", id)
			other := stay(t, w, own)
			if other.OwnsWorktree() || other.Dir() != own.Dir() {
				t.Errorf("the other one works in %s, of its own: %t", other.Dir(), other.OwnsWorktree())
			}
			for range 2 { // looking takes nothing away
				if got := own.ChangesNote(t.Context()); !strings.HasSuffix(got, ": agents or commands that still work there]") {
					t.Errorf("it tells %q", got)
				}
			}
			w.end(own, leave)
			if got := use(t, other.Workspace, "write", `{"path":"later","content":"x"}`); !strings.HasPrefix(got, "Made") {
				t.Errorf("the other one is told %q", got)
			}
			if got := read(t, filepath.Join(own.Dir(), "later")); got != "x" {
				t.Errorf("it has written %q", got)
			}
			must(t, other.Leave())
			own, leave = w.grow("2", id)
			command(t, own.Dir(), "clean", "-qfd")
			if got := w.end(own, leave); got != "" {
				t.Errorf("it tells %q", got)
			}
			w.clean()
		})
	}
}

// TestReplaced: who enters works in the directory that is there, though others still have
// one open that it has taken the place of.
func TestReplaced(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	first, leaveFirst := w.grow("1", id)
	command(t, w.dir, "worktree", "remove", "-f", "-f", first.Dir())
	second, leaveSecond := enter(t, w.Places, w.run("1", newTask(), id))
	third, leaveThird := enter(t, w.Places, w.run("1", newTask(), id))
	if second.Workspace == first.Workspace || second.Workspace != third.Workspace {
		t.Error("they have what is not there any more, or not the same")
	}
	if got := use(t, second.Workspace, "ls", `{}`); got != "README" {
		t.Errorf("it sees %q", got)
	}
	leaveFirst()
	leaveSecond()
	if got := use(t, third.Workspace, "ls", `{}`); got != "README" {
		t.Errorf("when others have left it sees %q", got)
	}
	leaveThird()
}

// TestResumedBeforeTheLastRunHasLeft: a run has removed its worktree, and the next one of the task enters
// before it leaves. It works in the new worktree.
func TestResumedBeforeTheLastRunHasLeft(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	first, leaveFirst := w.grow("1", id)
	must(t, first.RemoveIfUnchanged(t.Context()))
	first.dir.lookedAt = time.Now().Add(time.Hour) // just now, however long git takes
	second, leaveSecond := w.grow("2", id)
	leaveFirst()
	if got := use(t, second.Workspace, "write", `{"path":"work","content":"mine"}`); !strings.HasPrefix(got, "Made") {
		t.Errorf("it is told %q", got)
	}
	if got := read(t, filepath.Join(second.Dir(), "work")); got != "mine" {
		t.Errorf("the work is %q", got)
	}
	leaveSecond()
}

// TestPrunedBeside: an agent does not see the worktrees of others, and tidies up what git then
// takes for gone. Neither one under way nor one that is kept is.
func TestPrunedBeside(t *testing.T) {
	t.Parallel()
	w := plant(t)
	kept, other := newTask(), newTask()
	before, leave := w.grow("1", kept)
	write(t, filepath.Join(before.Dir(), "new"), "x")
	w.end(before, leave)
	underway, leaveUnderway := w.grow("1", other)
	tidy, _ := w.grow("1", newTask())
	if got := w.bash(tidy.Workspace, "git worktree prune -v && git gc -q --prune=now && echo all"); got != "all" {
		t.Errorf("it is told %q", got)
	}
	if got := w.bash(underway.Workspace, "touch new && git add new && git status --short"); got != "A  new" {
		t.Errorf("the one under way gets %q", got)
	}
	if got := w.end(underway, leaveUnderway); !strings.HasSuffix(got, ": changes that are not committed]") {
		t.Errorf("it tells %q", got)
	}
	for _, id := range []tree.TaskID{kept, other} {
		again, leave := w.grow("2", id)
		command(t, again.Dir(), "add", "-A")
		if got := command(t, again.Dir(), "status", "--short"); got != "A  new" {
			t.Errorf("resumed, it finds %q", got)
		}
		leave()
	}
}

// wrapGit puts a script in the place of git, from now on. In the script, git is the real one.
func (w *wood) wrapGit(script string) {
	w.t.Helper()
	bin := w.t.TempDir()
	must(w.t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/bash\n"+script), 0o700)) //nolint:gosec // it is a program
	open, err := sandbox.New(sandbox.Config{Mode: sandbox.Off, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	must(w.t, err)
	w.Sandbox = open
	w.t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// TestBranchStaysWhenGitFails: git fails once when it is asked for the branch of a worktree that is at
// another commit, as it does when there are too many processes. The branch is not taken for missing.
func TestBranchStaysWhenGitFails(t *testing.T) {
	w := plant(t)
	own, leave := w.grow("1", newTask())
	command(t, own.Dir(), "commit", "-q", "--allow-empty", "-m", "work")
	command(t, own.Dir(), "checkout", "-q", "--detach", "main")
	failed := filepath.Join(t.TempDir(), "failed")
	w.wrapGit(`case "$*" in *refs/heads/coppice*) [ -e ` + failed + ` ] || { touch ` + failed + `; exit 128; };; esac
exec git "$@"
`)
	if err := own.RemoveIfUnchanged(t.Context()); err == nil {
		t.Error("git has not failed")
	}
	if got := own.ChangesNote(t.Context()); !strings.HasSuffix(got, ": 1 commit]") {
		t.Errorf("it tells %q", got)
	}
	leave()
}

// TestWhatIsWrittenLastStays: a command in the background ends while the worktree is looked at for
// changes, just after the files were looked at. What it has written until then is kept; if that is
// nothing, it does not keep the worktree.
func TestWhatIsWrittenLastStays(t *testing.T) {
	for name, writes := range map[string]bool{"a file": true, "nothing": false} {
		t.Run(name, func(t *testing.T) {
			w := plant(t)
			own, leave := w.grow("1", newTask())
			running := own.Share()
			bin := t.TempDir()
			w.wrapGit(`git "$@"
code=$?
case "$*" in *status*) touch ` + bin + `/looked; while [ ! -e ` + bin + `/ended ]; do sleep 0.02; done;; esac
exit $code
`)
			removed := make(chan error, 1)
			go func() { removed <- own.RemoveIfUnchanged(t.Context()) }()
			for _, err := os.Stat(filepath.Join(bin, "looked")); err != nil; _, err = os.Stat(filepath.Join(bin, "looked")) {
				if len(removed) > 0 {
					t.Fatalf("it has not looked: %v", <-removed)
				}
				runtime.Gosched()
			}
			last := filepath.Join(own.Dir(), "last")
			if writes {
				write(t, last, "x")
			}
			must(t, running.Leave())
			write(t, filepath.Join(bin, "ended"), "")
			must(t, <-removed)
			if _, err := os.Stat(own.Dir()); (err == nil) != writes {
				t.Errorf("the worktree: %v", err)
			}
			if writes && read(t, last) != "x" {
				t.Errorf("the command has written %q", read(t, last))
			}
			leave()
		})
	}
}
