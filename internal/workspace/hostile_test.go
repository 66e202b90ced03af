package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestNothingOfTheRepositoryRuns has a repository that names programs wherever git
// looks for some. Each of them would leave a trace.
func TestNothingOfTheRepositoryRuns(t *testing.T) {
	t.Parallel()
	traces := t.TempDir()
	w := plant(t, ".gitattributes", "* filter=evil diff=evil merge=evil text\n", "a.txt", "a\n", "b.txt", "b\n")
	trap := func(name string) string {
		script := filepath.Join(traces, name+".sh")
		write(t, script, fmt.Sprintf("#!/bin/sh\necho ran > %s\ncat\n", filepath.Join(traces, name+".ran")))
		must(t, os.Chmod(script, 0o755))
		return script
	}
	hooks := []string{
		"post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-merge", "post-rewrite",
		"pre-auto-gc", "fsmonitor-watchman", "update", "post-update", "proc-receive", "sendemail-validate",
	}
	for _, hook := range hooks {
		must(t, os.Symlink(trap("hook-"+hook), filepath.Join(w.dir, ".git/hooks", hook)))
	}
	elsewhere := filepath.Join(w.dir, ".git/elsewhere")
	must(t, os.CopyFS(elsewhere, os.DirFS(filepath.Join(w.dir, ".git/hooks"))))
	config := map[string]string{
		"core.hooksPath": elsewhere, "filter.evil.required": "true",
		"extensions.partialClone": "origin", "remote.origin.url": "ext::" + trap("transport") + " %S", "remote.origin.promisor": "true",
		"protocol.ext.allow": "always", "protocol.allow": "always", "extensions.worktreeConfig": "true",
		"alias.worktree": "!" + trap("alias"), "alias.status": "!" + trap("alias"), "status.submoduleSummary": "true", "core.repositoryFormatVersion": "1",
	}
	for _, key := range []string{
		"core.fsmonitor", "filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "diff.external", "diff.evil.textconv", "diff.evil.command",
		"merge.evil.driver", "core.editor", "core.pager", "core.sshCommand", "core.askPass", "core.gitProxy", "credential.helper", "gpg.program",
		"sequence.editor", "core.alternateRefsCommand", "pager.status", "trace2.normalTarget", "uploadpack.packObjectsHook",
	} {
		config[key] = trap("config-" + key)
	}
	for key, value := range config {
		command(t, w.dir, "config", key, value)
	}
	write(t, filepath.Join(w.dir, ".git/info/attributes"), "* filter=evil\n")
	write(t, filepath.Join(w.dir, ".git/config.worktree"), "[core]\n\tfsmonitor = "+trap("config-worktree")+"\n")

	id := newTask()
	place, leave := w.grow("1", id)
	if got := read(t, filepath.Join(place.Dir(), "a.txt")); got != "a\n" {
		t.Errorf("the file holds %q", got)
	}
	if got := w.end(place, leave); got != "" {
		t.Errorf("unchanged: %q", got)
	}
	place, leave = w.grow("2", id)
	write(t, filepath.Join(place.Dir(), "a.txt"), "changed\n")
	if got := w.end(place, leave); !strings.Contains(got, "not committed") {
		t.Errorf("changed: %q", got)
	}
	// An object that is missing is not fetched.
	blob := command(t, w.dir, "rev-parse", "HEAD:b.txt")
	must(t, os.Remove(filepath.Join(w.dir, ".git/objects", blob[:2], blob[2:])))
	lacking := newTask()
	if place, err := w.Enter(t.Context(), w.run("1", lacking, lacking)); err == nil {
		t.Errorf("without an object: it works in %s", place.Dir())
	}
	ran, err := filepath.Glob(filepath.Join(traces, "*.ran"))
	must(t, err)
	for _, trace := range ran {
		t.Errorf("%s has run", filepath.Base(trace))
	}
	t.Logf("%d programs named by the repository, %d ran", len(config)+len(hooks), len(ran))

	// The traps do spring when somebody works there as git has it by itself.
	if err := tryGit(place.Dir(), "status"); err != nil {
		t.Log(err)
	}
	if ran, err = filepath.Glob(filepath.Join(traces, "*.ran")); err != nil || len(ran) == 0 {
		t.Errorf("no trap would have sprung: %v", err)
	}
}

// TestNoRepository: whoever wants a worktree and can't have one is told why, and
// nothing outside is written.
func TestNoRepository(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir, away string)
		want  string
	}{
		"none": {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Join(dir, ".git"))) }, "is no git repository"},
		"no commit": {func(t *testing.T, dir, _ string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git")))
			command(t, dir, "init", "-q")
		}, "has no commit"},
		"no git directory": {func(t *testing.T, dir, _ string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git")))
			must(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755))
		}, "git rev-parse"},
		"a file that leads out": {func(t *testing.T, dir, away string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git")))
			write(t, filepath.Join(dir, ".git"), "gitdir: "+away+"/.git\n")
		}, "is elsewhere"},
		"a link that leads out": {func(t *testing.T, dir, away string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git")))
			must(t, os.Symlink(filepath.Join(away, ".git"), filepath.Join(dir, ".git")))
		}, "is a symbolic link"},
		"objects lead out": {func(t *testing.T, dir, away string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git/objects")))
			must(t, os.Symlink(filepath.Join(away, ".git/objects"), filepath.Join(dir, ".git/objects")))
		}, "is a symbolic link"},
		"branches lead out": {func(t *testing.T, dir, away string) {
			must(t, os.Symlink(away, filepath.Join(dir, ".git/refs/heads/coppice")))
		}, "is a symbolic link"},
		"worktrees lead out": {func(t *testing.T, dir, away string) {
			must(t, os.MkdirAll(filepath.Join(dir, ".coppice"), 0o755))
			must(t, os.Symlink(away, filepath.Join(dir, ".coppice/worktrees")))
		}, ".coppice/worktrees"},
		"our directory is a link": {func(t *testing.T, dir, _ string) {
			must(t, os.Mkdir(filepath.Join(dir, "docs"), 0o755))
			must(t, os.Symlink("docs", filepath.Join(dir, ".coppice")))
		}, ".coppice is not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, away := plant(t), plant(t)
			c.spoil(t, w.dir, away.dir)
			before := everything(t, away.dir)
			id := newTask()
			place, err := w.Enter(t.Context(), w.run("1", id, id))
			if err == nil {
				t.Fatalf("it works in %s", place.Dir())
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if after := everything(t, away.dir); after != before {
				t.Errorf("outside was\n%sis\n%s", before, after)
			}
		})
	}
}

// What an agent does to its own worktree's .git leads nobody out: neither the worker's
// git nor the file tools follow it.
func TestWorktreeThatLeadsOut(t *testing.T) {
	t.Parallel()
	w, away := plant(t), plant(t, "secret", "outside\n")
	id := newTask()
	place, leave := w.grow("1", id)
	write(t, filepath.Join(place.Dir(), ".git"), "gitdir: "+away.dir+"/.git\n")
	admin := filepath.Join(w.dir, ".git/worktrees", id.String())
	write(t, filepath.Join(admin, "commondir"), away.dir+"/.git\n")
	before := everything(t, away.dir)
	if got := w.end(place, leave); got != "" {
		t.Errorf("it tells %q", got)
	}
	if after := everything(t, away.dir); after != before {
		t.Errorf("outside was\n%sis\n%s", before, after)
	}
	// A link in the place of the worktree is not gone into.
	place, leave = w.grow("2", id)
	leave()
	must(t, os.RemoveAll(place.Dir()))
	must(t, os.Symlink(away.dir, place.Dir()))
	if again, err := w.Enter(t.Context(), w.run("3", id, id)); err == nil {
		t.Errorf("it works in %s: %s", again.Dir(), use(t, again.Workspace, "ls", `{}`))
		must(t, again.Leave())
	}
}

// TestCommandsAreNotLedOut: an agent in a worktree is at work when one in its parent's
// files puts a link where the worktree or the repository was. No command of it starts
// elsewhere, and neither does git.
func TestCommandsAreNotLedOut(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *wood, worktree string) string{
		"the worktree":            func(_ *wood, worktree string) string { return worktree },
		"the way to the worktree": func(_ *wood, worktree string) string { return filepath.Dir(worktree) },
		"the repository":          func(w *wood, _ string) string { return filepath.Join(w.dir, ".git") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, away := plant(t), plant(t, "secret", "outside\n")
			id := newTask()
			place, _ := w.grow("1", id)
			if got := w.bash(place.Workspace, "cat README && git status --porcelain"); got != "hello" {
				t.Fatalf("before: %q", got)
			}
			repo, err := openRepository(t.Context(), w.dir, git{w.Sandbox})
			must(t, err)
			t.Cleanup(func() { must(t, repo.close()) })
			chain := worktrees([]tree.TaskID{id})
			head, err := repo.head(t.Context(), chain)
			must(t, err)

			path := spoil(w, place.Resolved())
			target := filepath.Join(away.dir, "target")
			must(t, os.CopyFS(filepath.Join(target, id.String()), os.DirFS(path)))
			must(t, os.CopyFS(target, os.DirFS(path)))
			must(t, os.Rename(path, filepath.Join(w.dir, "moved")))
			must(t, os.Symlink(target, path))
			before := everything(t, away.dir)
			script := fmt.Sprintf("cat %s/secret; ls %[1]s %s; touch new %[2]s/new", away.dir, target)
			if got := w.bash(place.Workspace, script); !strings.Contains(got, "symbolic link") || strings.Contains(got, "outside") {
				t.Errorf("the command says %q", got)
			}
			if said, err := repo.runIsolated(t.Context(), chain[0], head, "read-tree", "-u", "--reset", head); err == nil {
				t.Errorf("git says %q", said)
			}
			if after := everything(t, away.dir); after != before {
				t.Errorf("outside was\n%sis\n%s", before, after)
			}
		})
	}
}

// TestLinkedWorkspace: links that lead to the workspace itself are the operator's.
func TestLinkedWorkspace(t *testing.T) {
	t.Parallel()
	w := plant(t)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(w.dir, link))
	linked := &wood{t: t, dir: link, Places: places(t, Config{Dir: link}), session: w.session}
	id := newTask()
	place, leave := linked.grow("1", id)
	if got := linked.bash(place.Workspace, "git status --porcelain --branch"); got != "## "+branchPrefix+id.String() {
		t.Errorf("in a worktree: %q", got)
	}
	linked.end(place, leave)
	base, _ := enter(t, linked.Places, linked.run("1", newTask()))
	if got := linked.bash(base.Workspace, "pwd; cat README"); got != w.dir+"\nhello" {
		t.Errorf("in the workspace: %q", got)
	}
}

// What an agent puts where the worktrees of its own agents would be keeps nobody
// waiting: the end of its run holds the session's lock.
func TestNoPlaceForWorktrees(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a FIFO": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plant(t)
			id := newTask()
			place, leave := w.grow("1", id)
			at := filepath.Join(place.Dir(), tool.WorktreesDir)
			must(t, os.MkdirAll(filepath.Dir(at), 0o700))
			must(t, put(at))
			kept := make(chan string, 1)
			go func() { kept <- place.ChangesNote(t.Context()) }()
			select {
			case got := <-kept:
				if !strings.Contains(got, "could not be looked at") {
					t.Errorf("it tells %q", got)
				}
			case <-time.After(time.Minute):
				t.Fatal("it waits for somebody to write")
			}
			leave()
			other := newTask()
			place, leave = w.grow("1", other)
			if got := w.end(place, leave); got != "" {
				t.Errorf("another tells %q", got)
			}
		})
	}
}

// A pipe in the place of a file of the repository, which an agent holds open and never
// writes to, keeps nobody waiting.
func TestPipeForFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HEAD", "coppice-ready"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plant(t)
			id := newTask()
			place, leave := w.grow("1", id)
			pipe := filepath.Join(w.dir, ".git/worktrees", id.String(), name)
			must(t, os.Remove(pipe))
			must(t, syscall.Mkfifo(pipe, 0o600))
			held, err := os.OpenFile(pipe, os.O_RDWR, 0)
			must(t, err)
			ended := make(chan error, 1)
			go func() {
				place.ChangesNote(t.Context())
				ended <- place.RemoveIfUnchanged(t.Context())
			}()
			select {
			case err := <-ended:
				t.Log(err)
			case <-time.After(time.Minute):
				t.Error("it waits for somebody to write")
			}
			must(t, held.Close())
			leave()
			if got := read(t, filepath.Join(place.Dir(), "README")); got != "hello\n" {
				t.Errorf("the worktree holds %q", got)
			}
		})
	}
}
