package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

func newTask() tree.TaskID { return tree.TaskID(uuid.New()) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func box(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	box, err := sandbox.New(sandbox.Config{Environ: []string{"PATH=" + os.Getenv("PATH")}})
	must(t, err)
	return box
}

func places(t testing.TB, c Config) *Places {
	t.Helper()
	c.Sandbox = box(t)
	p, err := New(c)
	must(t, err)
	t.Cleanup(func() {
		for path, dir := range p.open {
			if dir != p.lastLeft || dir.users > 0 {
				t.Errorf("%s is still open, with %d users", path, dir.users)
			}
		}
	})
	return p
}

// enter gives a run its place until the test ends, or leave is called.
func enter(t testing.TB, p *Places, r Run) (place *Place, leave func()) {
	t.Helper()
	place, err := p.Enter(t.Context(), r)
	must(t, err)
	leave = sync.OnceFunc(func() { must(t, place.Leave()) })
	t.Cleanup(leave)
	return place, leave
}

// use calls a tool in a workspace and gives what it says.
func use(t testing.TB, w *tool.Workspace, name, input string) string {
	t.Helper()
	called, ok := tool.Lookup(tool.Builtin(), name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	return called.Call(t.Context(), tool.Call{Input: []byte(input), Workspace: w}).(tool.Done).Text
}

func write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}

// command runs git as somebody who works in a directory would.
func command(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(bytes.TrimSpace(out))
}

func TestNewNeedsOneDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "")
	for _, c := range []Config{{}, {Dir: dir, Root: dir}, {Dir: file}, {Root: file}, {Root: filepath.Join(dir, "missing")}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v: fine", c)
		}
	}
}

func TestEachSessionHasItsOwn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := places(t, Config{Root: root})
	one, two := tree.SessionID(uuid.New()), tree.SessionID(uuid.New())
	a, leave := enter(t, p, Run{Session: one, Task: newTask()})
	use(t, a.Workspace, "write", `{"path":"mine","content":"x"}`)
	b, _ := enter(t, p, Run{Session: one, Task: newTask()})
	c, _ := enter(t, p, Run{Session: two, Task: newTask()})
	if a.Workspace != b.Workspace || a.Workspace == c.Workspace {
		t.Error("runs of one session don't share their changes, or those of two do")
	}
	if got := use(t, b.Workspace, "ls", `{}`) + "|" + use(t, c.Workspace, "ls", `{}`); got != "mine|The directory is empty" {
		t.Errorf("they see %q", got)
	}
	info, err := os.Stat(filepath.Join(root, one.String()))
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	leave()
	if got := use(t, b.Workspace, "ls", `{}`); got != "mine" {
		t.Errorf("when one has left the other sees %q", got)
	}
	for _, path := range []string{"../" + two.String(), filepath.Join(root, two.String())} {
		if got := use(t, b.Workspace, "ls", `{"path":"`+path+`"}`); !strings.Contains(got, "workspace") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestSharedWorkspace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "checkout", "seen"), "")
	p := places(t, Config{Root: root})
	for name, want := range map[string]string{"checkout": "seen", "new-one": "The directory is empty"} {
		place, _ := enter(t, p, Run{Session: tree.SessionID(uuid.New()), Name: name})
		if got := use(t, place.Workspace, "ls", `{}`); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, name := range []string{"..", ".", "a/b", "/etc", "../x", ".hidden", "a\x00", "é", strings.Repeat("x", 101), uuid.NewString()} {
		if place, err := p.Enter(t.Context(), Run{Session: tree.SessionID(uuid.New()), Name: name}); err == nil {
			t.Errorf("%q: entered %s", name, place.Dir())
		}
	}
	entries, err := os.ReadDir(root)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("below the root is %v", entries)
	}
	fixed := places(t, Config{Dir: root})
	if _, err := fixed.Enter(t.Context(), Run{Session: tree.SessionID(uuid.New()), Name: "checkout"}); err == nil || !strings.Contains(err.Error(), "--workspaces") {
		t.Errorf("a worker with one workspace: %v", err)
	}
	a, _ := enter(t, fixed, Run{Session: tree.SessionID(uuid.New())})
	b, _ := enter(t, fixed, Run{Session: tree.SessionID(uuid.New())})
	if a.Workspace != b.Workspace || a.Dir() != root {
		t.Errorf("they work in %s and %s", a.Dir(), b.Dir())
	}
}

// Many enter and leave at once, through two workers with one root.
func TestEnterAtOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	workers := []*Places{places(t, Config{Root: root}), places(t, Config{Root: root})}
	session := tree.SessionID(uuid.New())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				place, err := workers[i%2].Enter(context.WithoutCancel(t.Context()), Run{Session: session})
				if err != nil {
					t.Error(err)
					return
				}
				if err := place.Leave(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestReplacedDirectory: once nobody works in a directory, the next run works in the one that has
// replaced it; while somebody does, a run that enters later than lookEvery.
func TestReplacedDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "all")
	n := 0
	replace := func() {
		n++
		if n > 1 {
			must(t, os.Rename(dir, fmt.Sprint(dir, n)))
		}
		must(t, os.Mkdir(dir, newDirMode))
		must(t, os.WriteFile(filepath.Join(dir, "n"), fmt.Append(nil, "directory ", n), 0o600))
	}
	replace()
	p := places(t, Config{Dir: dir})
	works := func(in int) (leave func()) {
		t.Helper()
		place, leave := enter(t, p, Run{Task: newTask()})
		if got := use(t, place.Workspace, "read", `{"path": "n"}`); !strings.Contains(got, fmt.Sprint("directory ", in)) {
			t.Errorf("a run in directory %d reads %q", in, got)
		}
		return leave
	}
	works(1)()
	replace()
	first := works(2)
	replace()
	p.open[p.Dir].lookedAt = time.Now().Add(-lookEvery)
	works(3)()
	works(3)()
	first()
	works(3)()
}

// TestLastLeftStaysOpen: the directory that was left last stays open, unless a link leads elsewhere
// by the time of the next run.
func TestLastLeftStaysOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		write(t, filepath.Join(dir, "to", name, name), "")
	}
	link := filepath.Join(dir, "to", "current")
	lead := func(to string) {
		must(t, os.Symlink(to, link+"-new"))
		must(t, os.Rename(link+"-new", link))
	}
	p := places(t, Config{Root: filepath.Join(dir, "to")})
	works := func(name, sees string) *tool.Workspace {
		t.Helper()
		place, leave := enter(t, p, Run{Task: newTask(), Name: name})
		defer leave()
		if got := use(t, place.Workspace, "ls", `{}`); got != sees {
			t.Errorf("a run in %s sees %q", name, got)
		}
		return place.Workspace
	}
	lead("one")
	first := works("current", "one")
	if works("current", "one") != first {
		t.Error("the directory was opened again for the next run")
	}
	lead("two")
	works("current", "two")
	second := works("two", "two")
	if len(p.open) != 1 || works("two", "two") != second {
		t.Errorf("open are %v", p.open)
	}
	if _, err := first.OpenDir(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the directory that was left before: %v", err)
	}
}
