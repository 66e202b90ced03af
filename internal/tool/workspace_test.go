package tool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const secret = "the secret outside"

// setup makes a workspace with these files (path, content), and beside it the
// file "secret" and the directory "away" with a file "secret".
func setup(t testing.TB, files ...string) *Workspace {
	t.Helper()
	parent := t.TempDir()
	dir := filepath.Join(parent, "ws")
	write(t, filepath.Join(parent, "secret"), secret)
	write(t, filepath.Join(parent, "away", "secret"), secret)
	must(t, os.Mkdir(dir, 0o755))
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	w, err := OpenWorkspace(dir)
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	return w
}

func write(t testing.TB, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(content), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// call calls a built-in tool that does its work itself.
func call(t testing.TB, w *Workspace, name, input string) Done {
	t.Helper()
	tool, ok := Lookup(Builtin(), name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	done, ok := tool.Call(t.Context(), Call{Input: []byte(input), Workspace: w}).(Done)
	if !ok {
		t.Fatalf("%s %s: not done", name, input)
	}
	if len(done.Text) > maxOutput {
		t.Errorf("%s %s: %d bytes", name, input, len(done.Text))
	}
	return done
}

// toolCase is a row of the tests of one tool. A want that starts with "error: "
// is a piece of an error result.
type toolCase struct{ input, want string }

func check(t *testing.T, w *Workspace, tool string, cases []toolCase) {
	t.Helper()
	for _, c := range cases {
		got := call(t, w, tool, c.input)
		if want, isError := strings.CutPrefix(c.want, "error: "); isError {
			if !got.IsError || !strings.Contains(got.Text, want) {
				t.Errorf("%s %s:\n got %+v\nwant an error with %q", tool, c.input, got, want)
			}
		} else if got.IsError || got.Text != c.want {
			t.Errorf("%s %s:\n got %+v\nwant %q", tool, c.input, got, c.want)
		}
	}
}

func TestOpenWorkspaceNeedsADirectory(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"missing", "file"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "file"), "")
		if _, err := OpenWorkspace(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestNoWorkspace(t *testing.T) {
	t.Parallel()
	for tool, input := range map[string]string{
		"ls": `{}`, "glob": `{"pattern":"*"}`, "grep": `{"pattern":"x"}`, "read": `{"path":"x"}`,
		"write": `{"path":"x","content":""}`, "edit": `{"path":"x","old_string":"a","new_string":""}`,
	} {
		check(t, nil, tool, []toolCase{{input, "error: no workspace"}})
	}
}

func TestAbsolutePathsInside(t *testing.T) {
	t.Parallel()
	w := setup(t, "a/b.txt", "hello\n")
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(w.Dir(), link))
	linked, err := OpenWorkspace(link)
	must(t, err)
	t.Cleanup(func() { must(t, linked.Close()) })
	for _, dir := range []string{link, w.Dir()} {
		check(t, linked, "read", []toolCase{{fmt.Sprintf(`{"path":%q}`, dir+"/a/b.txt"), withVersion("     1\thello", versionOf("hello\n"))}})
		check(t, linked, "ls", []toolCase{{fmt.Sprintf(`{"path":%q}`, dir), "a/"}})
		check(t, linked, "glob", []toolCase{{fmt.Sprintf(`{"pattern":%q}`, dir+"/**/*.txt"), "a/b.txt"}})
		check(t, linked, "grep", []toolCase{{fmt.Sprintf(`{"pattern":"h","path":%q}`, dir+"/a"), "a/b.txt"}})
	}
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	w := setup(t, "in/file", "inside\n")
	parent := filepath.Dir(w.Dir())
	for name, target := range map[string]string{
		"file-link": "../secret", "dir-link": "../away", "up-link": "..",
		"absolute-link": filepath.Join(parent, "secret"), "in/chain": "../file-link",
		"loop": "loop", "inside-link": "in",
	} {
		must(t, os.Symlink(target, filepath.Join(w.Dir(), name)))
	}
	for _, path := range []string{
		"..", "../secret", "in/../../secret", "./../ws/../secret", "/etc/passwd", "/", parent, parent + "/secret",
		w.Dir() + "/../secret", w.Dir() + "x", "file-link", "dir-link/secret", "up-link/secret", "dir-link",
		"up-link/ws/../secret", "absolute-link", "in/chain", "inside-link/chain", "loop", "loop/x",
	} {
		for _, input := range []string{"read {%q:%q}", "ls {%q:%q}", `grep {"pattern":"","output_mode":"content",%q:%q}`,
			`grep {"pattern":".","output_mode":"content",%q:%q}`, `glob {"pattern":"**",%q:%q}`, `write {"content":"x",%q:%q}`, `edit {"old_string":"the","new_string":"x",%q:%q}`} {
			tool, input, _ := strings.Cut(input, " ")
			got := call(t, w, tool, fmt.Sprintf(input, "path", path))
			if !got.IsError || strings.Contains(got.Text, secret) {
				t.Errorf("%s %s: %+v", tool, path, got)
			}
		}
		if strings.HasPrefix(path, w.Dir()+"/") || !filepath.IsAbs(path) {
			got := call(t, w, "glob", fmt.Sprintf(`{"pattern":%q}`, path+"/*"))
			if !got.IsError && got.Text != noFiles {
				t.Errorf("glob %s: %+v", path, got)
			}
		}
	}
	check(t, w, "read", []toolCase{{`{"path":"inside-link/file"}`, withVersion("     1\tinside", versionOf("inside\n"))}})
	check(t, w, "glob", []toolCase{{`{"pattern":"**"}`, "in/file"}, {`{"pattern":"../*"}`, "error: leads out"}})
	check(t, w, "grep", []toolCase{{`{"pattern":"."}`, "in/file"}})
}

// Nothing that could block or have an effect is opened, however it is reached.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	w := setup(t, "plain", "text\n")
	must(t, syscall.Mkfifo(filepath.Join(w.Dir(), "pipe"), 0o644))
	must(t, os.Symlink("pipe", filepath.Join(w.Dir(), "link")))
	for _, name := range []string{"pipe", "link"} {
		for _, tool := range []string{`read {"path":%q}`, `ls {"path":%q}`, `grep {"pattern":"x","path":%q}`, `glob {"pattern":"*","path":%q}`} {
			tool, input, _ := strings.Cut(tool, " ")
			check(t, w, tool, []toolCase{{fmt.Sprintf(input, name), "error: neither a file nor a directory"}})
		}
	}
	check(t, w, "write", []toolCase{{`{"path":"pipe","content":"x"}`, "error: neither a file nor a directory"}})
	check(t, w, "glob", []toolCase{{`{"pattern":"**"}`, "plain"}})
	check(t, w, "grep", []toolCase{{`{"pattern":".","output_mode":"count"}`, "plain:1"}})
	check(t, w, "ls", []toolCase{{`{}`, "link\npipe\nplain"}})
}

// A file that turns into a pipe under the reader's hands does not block it.
func TestPipeRace(t *testing.T) {
	t.Parallel()
	w := setup(t, "file", "text\n")
	at := func(name string) string { return filepath.Join(w.Dir(), name) }
	stop := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			var err error
			if i%2 == 0 {
				err = syscall.Mkfifo(at("next"), 0o644)
			} else {
				err = os.WriteFile(at("next"), []byte("text\n"), 0o644)
			}
			if err == nil {
				err = os.Rename(at("next"), at("file"))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 500 {
		if got := call(t, w, "read", `{"path":"file"}`); !got.IsError && !strings.HasPrefix(got.Text, "     1\ttext\n[version ") {
			t.Errorf("%+v", got)
		}
	}
	close(stop)
	flipping.Wait()
}

// countdown is a context that ends after it has been asked some times whether it
// has: it ends at a known place in the work, not at a time.
type countdown struct {
	context.Context
	left, after int
}

func (c *countdown) Err() error {
	if c.left--; c.left >= 0 {
		return nil
	}
	c.after++
	return context.Canceled
}

func TestCancel(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 200 {
		files = append(files, fmt.Sprintf("d%d/f%d.txt", i%10, i), strings.Repeat("a line\n", 100_000/200))
	}
	files = append(files, "long", strings.Repeat("x", 2_000_000))
	w := setup(t, files...)
	for _, c := range []string{
		`ls {}`, `glob {"pattern":"**/*.txt"}`, `grep {"pattern":"b"}`, `grep {"pattern":"b","output_mode":"count"}`,
		`grep {"pattern":"y","path":"long"}`, `read {"path":"long","offset":5}`,
	} {
		name, input, _ := strings.Cut(c, " ")
		tool, _ := Lookup(Builtin(), name)
		for _, left := range []int{0, 1, 20} {
			ctx := &countdown{Context: t.Context(), left: left}
			out := tool.Call(ctx, Call{Input: []byte(input), Workspace: w})
			if done := out.(Done); ctx.after > 0 && !done.IsError {
				t.Errorf("%s ended after %d looks: %+v", c, left, done)
			}
			if ctx.after > 10 {
				t.Errorf("%s ended after %d looks: looked %d times more", c, left, ctx.after)
			}
			if left == 0 && ctx.after == 0 {
				t.Errorf("%s never looked at its context", c)
			}
		}
	}
}
