package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const linkVariable = "COPPICE_TEST_LINKS"

// TestLinks has workers of all kinds start commands where other commands have put links
// in the place of directories.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, k := range workerKinds {
		t.Run(fmt.Sprintf("%d %s %s", k.uid, k.mode, k.by), func(t *testing.T) {
			t.Parallel()
			needUser(t, k.uid)
			out, err := asUser(t, k.uid, "^TestLinksInWorker$", fmt.Sprintf("%s=%s,%s", linkVariable, k.mode, k.by)).CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestLinksInWorker/exchanged")) {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", regexp.MustCompile(`\d+ commands ran.*`).Find(out))
		})
	}
}

// yard is a directory with a workspace, what is outside of it, and links in the
// workspace that lead there.
type yard struct{ work, out, link, below string }

func newYard(t *testing.T) *yard {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{work: filepath.Join(dir, "work"), out: filepath.Join(dir, "out")}
	y.link, y.below = filepath.Join(y.work, "link"), filepath.Join(y.work, "link", "below")
	err = errors.Join(
		os.Mkdir(y.work, 0o755), os.Mkdir(filepath.Join(y.work, "place"), 0o755), os.MkdirAll(filepath.Join(y.out, "below"), 0o755),
		os.WriteFile(filepath.Join(y.out, "secret"), []byte(planted), 0o644), os.Symlink(y.out, y.link),
	)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// TestLinksInWorker is the worker of TestLinks.
func TestLinksInWorker(t *testing.T) {
	if os.Getenv(linkVariable) == "" {
		t.Log("it is for a process of its own, which TestLinks starts")
		return
	}
	box, _ := workerFrom(t, linkVariable)
	y := newYard(t)
	place := filepath.Join(y.work, "place")
	for name, c := range map[string]Command{
		"the directory":              {Dir: y.link},
		"the way to the directory":   {Dir: y.below},
		"what may be written":        {Dir: place, Writable: []string{y.link}},
		"the way to what may be":     {Dir: place, Writable: []string{y.below}},
		"the directory, by its name": {Dir: filepath.Join(place, "..", "link", ".")},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			c.Argv = []string{"bash", "-c", `cat "$OUT/secret"; touch "$OUT/new"`}
			c.Env = []string{"OUT=" + y.out}
			before := snapshot(t, y.out)
			if out, err := output(t, box, c, ""); err == nil || !strings.Contains(err.Error(), "symbolic link") {
				t.Errorf("it runs: %v: %s", err, out)
			}
			if after := snapshot(t, y.out); after != before {
				t.Errorf("outside was\n%sis\n%s", before, after)
			}
		})
	}
	t.Run("exchanged", func(t *testing.T) { exchange(t, box, y, place) })
}

// exchange starts commands in a place that is now a directory, now a link.
func exchange(t *testing.T, box *Sandbox, y *yard, place string) {
	before := snapshot(t, y.out)
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				close(stopped)
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, place, unix.AT_FDCWD, y.link, unix.RENAME_EXCHANGE); err != nil {
				stopped <- err
				return
			}
		}
	}()
	script := `cat secret "$PLACE/secret" 2>/dev/null; touch new "$PLACE/new"`
	if box.Mode() == Off {
		script = `cat secret 2>/dev/null; touch new` // by its path anybody goes anywhere
	}
	const rounds = 200
	elsewhere, ran, refused := t.TempDir(), 0, 0
	for round := 0; round < rounds || ran == 0; round++ {
		for _, c := range []Command{{Dir: place}, {Dir: elsewhere, Writable: []string{place}}} {
			c.Argv, c.Env = []string{"bash", "-c", script}, []string{"PLACE=" + place}
			out, err := output(t, box, c, "")
			if strings.Contains(out, planted) {
				t.Fatalf("it reads what is outside: %v: %s", err, out)
			}
			var exit *exec.ExitError
			if err == nil || errors.As(err, &exit) {
				ran++
			} else {
				refused++
			}
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if after := snapshot(t, y.out); after != before {
		t.Errorf("outside was\n%sis\n%s", before, after)
	}
	t.Logf("%d commands ran in the directory, %d did not start", ran, refused)
}

// TestReadableAboveTheSystem: what commands may read can contain paths of the system, some of which
// are links there.
func TestReadableAboveTheSystem(t *testing.T) {
	t.Parallel()
	for kind, config := range map[string]Config{"confined": {}, "plain": {Mode: BestEffort, ways: []way{}}} {
		config.Readable = []string{"/etc"}
		out, err := output(t, box(t, config), Command{Argv: []string{"bash", "-c", "cat /etc/hostname /etc/issue; id -un 0"}, Dir: t.TempDir()}, "")
		issue, _ := os.ReadFile("/etc/issue") // it may be missing
		if err != nil || !strings.HasSuffix(out, string(issue)+"root\n") {
			t.Errorf("%s: %v: %s", kind, err, out)
		}
	}
}

// TestLinkToReadable replaces what commands may read.
func TestLinkToReadable(t *testing.T) {
	t.Parallel()
	for kind, config := range map[string]Config{"confined": {}, "plain": {Mode: BestEffort, ways: []way{}}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			config.Readable = []string{filepath.Join(y.work, "place")}
			s := box(t, config)
			if err := errors.Join(os.Remove(config.Readable[0]), os.Rename(y.link, config.Readable[0])); err != nil {
				t.Fatal(err)
			}
			out, err := output(t, s, Command{Argv: []string{"bash", "-c", `cat "$OUT/secret"`}, Dir: t.TempDir(), Env: []string{"OUT=" + y.out}}, "")
			if err == nil || strings.Contains(out, planted) {
				t.Errorf("it runs: %v: %s", err, out)
			}
		})
	}
}

// TestLinkOnce: a link that leads to what commands may read is followed when the
// sandbox is made.
func TestLinkOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	s := box(t, Config{Readable: []string{y.link}, Workspace: y.link})
	out, err := output(t, s, Command{Argv: []string{"cat", filepath.Join(y.out, "secret")}, Dir: t.TempDir()}, "")
	if err != nil || out != planted {
		t.Errorf("%v: %s", err, out)
	}
}
