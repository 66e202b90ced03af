package workspace

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// wood is a workspace with a repository, and the places of a worker.
type wood struct {
	t   *testing.T
	dir string
	*Places
	session tree.SessionID
}

// plant makes one with a commit that has these files.
func plant(t *testing.T, files ...string) *wood {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	command(t, dir, "init", "-q", "-b", "main")
	write(t, filepath.Join(dir, "README"), "hello\n")
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	command(t, dir, "add", "-A")
	command(t, dir, "commit", "-q", "-m", "first")
	return &wood{t: t, dir: dir, Places: places(t, Config{Dir: dir}), session: tree.SessionID(uuid.New())}
}

func (w *wood) run(attempt string, task tree.TaskID, chain ...tree.TaskID) Run {
	return Run{Session: w.session, Task: task, Attempt: attempt, Worktrees: chain}
}

// grow gives a sub-agent its place.
func (w *wood) grow(attempt string, chain ...tree.TaskID) (*Place, func()) {
	w.t.Helper()
	return enter(w.t, w.Places, w.run(attempt, chain[len(chain)-1], chain...))
}

// bash runs a command line of an agent.
func (w *wood) bash(in *tool.Workspace, line string) string {
	w.t.Helper()
	input, err := json.Marshal(map[string]string{"command": line})
	must(w.t, err)
	return tool.NewBash(w.Sandbox, false, nil).Call(w.t.Context(), tool.Call{Input: input, Workspace: in, Label: "call"}).(tool.Done).Text
}

// end is the end of a run, as a worker sees to it.
func (w *wood) end(p *Place, leave func()) string {
	w.t.Helper()
	kept := p.ChangesNote(w.t.Context())
	must(w.t, p.RemoveIfUnchanged(w.t.Context()))
	leave()
	return kept
}

// clean holds that nothing is left of any worktree.
func (w *wood) clean() {
	w.t.Helper()
	if got := command(w.t, w.dir, "worktree", "list"); strings.Count(got, "\n") != 0 {
		w.t.Errorf("worktrees: %s", got)
	}
	if got := command(w.t, w.dir, "branch", "--list", "coppice/*"); got != "" {
		w.t.Errorf("branches: %s", got)
	}
	if got := command(w.t, w.dir, "status", "--porcelain"); got != "" {
		w.t.Errorf("the workspace has changed: %s", got)
	}
	left, err := filepath.Glob(filepath.Join(w.dir, ".coppice/worktrees/[^.]*"))
	must(w.t, err)
	if len(left) > 0 {
		w.t.Errorf("left: %v", left)
	}
}

func TestUnchangedIsRemoved(t *testing.T) {
	t.Parallel()
	w := plant(t, "src/a.go", "package a\n", ".gitignore", "*.log\n")
	id := newTask()
	place, leave := w.grow("1", id)
	if want := filepath.Join(w.dir, ".coppice/worktrees", id.String()); place.Dir() != want {
		t.Errorf("it works in %s, want %s", place.Dir(), want)
	}
	if got := use(t, place.Workspace, "glob", `{"pattern":"**"}`); got != ".gitignore\nREADME\nsrc/a.go" {
		t.Errorf("it sees %q", got)
	}
	if got := command(t, place.Dir(), "status", "--porcelain", "--branch"); got != "## coppice/"+id.String() {
		t.Errorf("git sees %q", got)
	}
	if got := use(t, place.Workspace, "read", `{"path":"../../../README"}`); !strings.Contains(got, "leads out") {
		t.Errorf("it gets out: %q", got)
	}
	if got := place.ExtraDirs(); len(got) != 1 || got[0] != filepath.Join(w.dir, ".git") {
		t.Errorf("commands may change %q beside", got)
	}
	// What git ignores, and what was kept of results, is no change.
	write(t, filepath.Join(place.Dir(), "x.log"), "")
	place.Excerpt("x", strings.Repeat("x", 2000), 1000)
	if got := w.end(place, leave); got != "" {
		t.Errorf("it tells %q", got)
	}
	w.clean()
}

// TestIgnoredByTheRepositoryIsNoChange ignores a file as people do who do not commit that.
func TestIgnoredByTheRepositoryIsNoChange(t *testing.T) {
	t.Parallel()
	w := plant(t)
	write(t, filepath.Join(w.dir, ".git/info/exclude"), "*.tmp")
	place, leave := w.grow("1", newTask())
	write(t, filepath.Join(place.Dir(), "x.tmp"), "")
	if got := command(t, place.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("git sees %q", got)
	}
	if got := w.end(place, leave); got != "" {
		t.Errorf("kept: %q", got)
	}
	w.clean()
}

func TestChangedIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"new file": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "new"), "x") }, "changes that are not committed"},
		"edited":   {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "README"), "bye\n") }, "changes that are not committed"},
		"removed":  {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "README"))) }, "changes that are not committed"},
		"staged": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "new"), "x")
			command(t, dir, "add", "-A")
		}, "changes that are not committed"},
		"committed": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "new"), "x")
			command(t, dir, "add", "-A")
			command(t, dir, "commit", "-q", "-m", "work")
		}, "1 commit"},
		"both": {func(t *testing.T, dir string) {
			for _, n := range []string{"a", "b"} {
				write(t, filepath.Join(dir, n), "x")
				command(t, dir, "add", "-A")
				command(t, dir, "commit", "-q", "-m", n)
			}
			write(t, filepath.Join(dir, "c"), "x")
		}, "2 commits, changes that are not committed"},
		"on another branch": {func(t *testing.T, dir string) {
			command(t, dir, "checkout", "-q", "-b", "elsewhere")
			command(t, dir, "commit", "-q", "--allow-empty", "-m", "work")
		}, "1 commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plant(t)
			id := newTask()
			place, leave := w.grow("1", id)
			dir := place.Dir()
			c.change(t, dir)
			before := command(t, dir, "status", "--porcelain", "--branch")
			got := w.end(place, leave)
			if want := "[worktree .coppice/worktrees/" + id.String() + ", branch coppice/" + id.String() + ": " + c.want + "]"; got != want {
				t.Errorf("it tells %q\nwant %q", got, want)
			}
			if after := command(t, dir, "status", "--porcelain", "--branch"); after != before {
				t.Errorf("it was %q, it is %q", before, after)
			}
			if got := read(t, filepath.Join(w.dir, "README")) + command(t, w.dir, "status", "--porcelain"); got != "hello\n" {
				t.Errorf("the parent sees %q", got)
			}
			// Another attempt, and a resume, find it as it is.
			for _, attempt := range []string{"2", "3"} {
				again, leave := enter(t, places(t, Config{Dir: w.dir}), w.run(attempt, id, id))
				if after := command(t, again.Dir(), "status", "--porcelain", "--branch"); again.Dir() != dir || after != before {
					t.Errorf("attempt %s finds %q in %s", attempt, after, again.Dir())
				}
				leave()
			}
		})
	}
}

// What the parent has taken over is not held any more; what is resumed then goes on
// with the branch as far as there is one.
func TestResumeAfterMerge(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	place, leave := w.grow("1", id)
	write(t, filepath.Join(place.Dir(), "new"), "x")
	command(t, place.Dir(), "add", "-A")
	command(t, place.Dir(), "commit", "-q", "-m", "work")
	w.end(place, leave)
	command(t, w.dir, "merge", "-q", "coppice/"+id.String())
	place, leave = w.grow("2", id)
	if got := w.end(place, leave); got != "" {
		t.Errorf("merged: %q", got)
	}
	w.clean()
	// The parent removed the worktree and kept the branch.
	place, leave = w.grow("3", id)
	command(t, place.Dir(), "commit", "-q", "--allow-empty", "-m", "more")
	w.end(place, leave)
	command(t, w.dir, "worktree", "remove", "-f", "-f", place.Dir())
	place, leave = w.grow("4", id)
	if got := command(t, place.Dir(), "log", "-1", "--format=%s"); got != "more" {
		t.Errorf("it goes on from %q", got)
	}
	if got := w.end(place, leave); !strings.Contains(got, ": 1 commit]") {
		t.Errorf("kept: %q", got)
	}
}

// A sub-agent of a sub-agent starts from where that is, and holds it there; one without
// a worktree of its own works in its parent's.
func TestNested(t *testing.T) {
	t.Parallel()
	w := plant(t)
	outer, inner, plain := newTask(), newTask(), newTask()
	a, leaveA := w.grow("1", outer)
	write(t, filepath.Join(a.Dir(), "outer"), "x")
	command(t, a.Dir(), "add", "-A")
	command(t, a.Dir(), "commit", "-q", "-m", "outer")
	b, leaveB := w.grow("1", outer, inner)
	if want := filepath.Join(a.Dir(), ".coppice/worktrees", inner.String()); b.Dir() != want {
		t.Errorf("the inner one works in %s", b.Dir())
	}
	if got := use(t, b.Workspace, "ls", `{}`); got != "README\nouter" {
		t.Errorf("it sees %q", got)
	}
	c, leaveC := enter(t, w.Places, w.run("1", plain, outer))
	if c.Workspace != a.Workspace || c.ChangesNote(t.Context()) != "" {
		t.Errorf("the plain one works in %s", c.Dir())
	}
	must(t, c.RemoveIfUnchanged(t.Context()))
	leaveC()
	write(t, filepath.Join(b.Dir(), "inner"), "x")
	if got := w.end(b, leaveB); !strings.HasPrefix(got, "[worktree .coppice/worktrees/"+inner.String()) {
		t.Errorf("the inner one tells %q", got)
	}
	command(t, w.dir, "merge", "-q", "coppice/"+outer.String())
	if got := w.end(a, leaveA); !strings.HasSuffix(got, ": worktrees of its own agents below it]") {
		t.Errorf("the outer one tells %q", got)
	}
	if got := read(t, filepath.Join(b.Dir(), "inner")); got != "x" {
		t.Errorf("the inner one's file is %q", got)
	}
}

// A worktree that another attempt has entered meanwhile is not removed under its feet.
func TestClearLeavesWhatIsEnteredAgain(t *testing.T) {
	t.Parallel()
	w := plant(t)
	id := newTask()
	first, leaveFirst := w.grow("1", id)
	second, leaveSecond := w.grow("2", id)
	w.end(first, leaveFirst)
	if got := use(t, second.Workspace, "read", `{"path":"README"}`); !strings.Contains(got, "hello") {
		t.Errorf("the second finds %q", got)
	}
	w.end(second, leaveSecond)
	w.clean()
}

// Many sub-agents at once, through two workers.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := plant(t)
	workers := []*Places{w.Places, places(t, Config{Dir: w.dir})}
	for _, p := range workers {
		p.lockTimeout = time.Hour // they wait for each other, however slow the machine is
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			id := newTask()
			place, err := workers[i%2].Enter(t.Context(), w.run("1", id, id))
			if err != nil {
				t.Error(err)
				return
			}
			if kept := place.ChangesNote(t.Context()); kept != "" {
				t.Errorf("kept: %s", kept)
			}
			for _, err := range []error{place.RemoveIfUnchanged(t.Context()), place.Leave()} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.clean()
}
