package sandbox

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// escape is a way out that has to be closed. What a script would have to do to get
// out is one of: print the secret or the word ESCAPED, change anything in $OUT or
// $OTHER, reach a listener, leave a process with $MARK among its arguments.
type escape struct {
	name   string
	script string
	// root: outside of the sandbox it is root alone whom it helps, so only there it is
	// shown that the script works.
	root bool
	// unproven says why the script is not run outside of the sandbox, if it is not.
	unproven string
	network  bool // the command may use the network
	tight    bool // with low limits
}

func escapes() []escape {
	return slices.Concat(readEscapes(), writeEscapes(), networkEscapes(), privilegeEscapes(), processEscapes(), resourceEscapes(), kernelEscapes())
}

// onlyNamespaces are the escapes that are open without namespaces: the documentation says so.
var onlyNamespaces = []string{
	"read another workspace by listing it", "read what is root's keys of ssh", "see the machine its disks", "see the machine its configuration",
	"look into the worker at its files", "look into the worker at its arguments", "look into the worker at its processes",
	"write outside by a file's rights", "write outside by a directory's rights", "write outside by the time of a file",
	"have capabilities in the bounding set", "change limits of others' chance", "reach a process by its affinity", "reach a process by its name",
}

// escapesFrom returns the escapes that have to be closed. Without namespaces, those that would only
// repeat what the other workers show are left out.
func escapesFrom(by way) []escape {
	if by != wayNone {
		return escapes()
	}
	rows := slices.Concat(readEscapes(), writeEscapes(), networkEscapes(), privilegeEscapes(), processEscapes())
	return slices.DeleteFunc(rows, func(e escape) bool { return slices.Contains(onlyNamespaces, e.name) })
}

// insideVariable tells the test binary that it is the worker whose commands try to
// escape, and how it gets its namespaces.
const insideVariable = "COPPICE_TEST_ESCAPES"

// TestEscapes runs all escapes in workers of several kinds.
func TestEscapes(t *testing.T) {
	t.Parallel()
	workers := []struct {
		name   string
		uid    uint32
		native string
	}{
		{"root", 0, "native"},
		{"nobody", nobodyID, "native"},
		{"nobody with bubblewrap", nobodyID, "bubblewrap"},
		{"nobody without namespaces", nobodyID, ""},
	}
	for _, w := range workers {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			needUser(t, w.uid)
			out, err := asUser(t, w.uid, "^TestEscapesFromWorker$", insideVariable+"="+w.native).CombinedOutput()
			count := regexp.MustCompile(`(?m)^.*\d+ escapes tried.*$`).Find(out)
			if err != nil || count == nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s: %s", w.name, bytes.TrimSpace(count))
		})
	}
}

// workerBinary is this test binary once more, where all users can reach it. It does
// without the race detector, whose start takes longer than most commands.
var workerBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "coppice-sandbox-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "test", "-c", "-race=false", "-o", filepath.Join(dir, "worker"), ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "worker"), nil
})

// asUser is this test binary again, as a worker of another user with a secret in its
// environment and with a file open.
func asUser(t *testing.T, uid uint32, run string, environ ...string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "coppice-escapes-") //nolint:usetesting // Other users can't enter the one of a test.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	made.Store(true)
	binary, err := workerBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run="+run, "-test.v", "-test.timeout=14m")
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + defaultPath, "TMPDIR=" + dir, "HOME=" + dir, planted + "=sk-" + rand.Text()}, environ...)
	if int(uid) != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return cmd
}

// TestEscapesFromWorker is the worker of TestEscapes.
func TestEscapesFromWorker(t *testing.T) {
	by, inside := os.LookupEnv(insideVariable)
	if !inside {
		t.Log("it is for a process of its own, which TestEscapes starts")
		return
	}
	w := newWorld(t, way(by))
	if w.box.way != way(by) {
		t.Fatalf("namespaces are made by %q, not %q", w.box.way, by)
	}
	leaveOpen(t, w.secret)
	proven, failed := 0, 0
	tried := escapesFrom(w.box.way)
	for _, e := range tried {
		t.Run(strings.ReplaceAll(e.name, " ", "_"), func(t *testing.T) {
			if e.unproven == "" && (!e.root || os.Getuid() == 0) {
				if how, output := w.free(t, e); how == "" {
					t.Errorf("outside of the sandbox it does not work either, so it proves nothing:\n%s\n%s", e.script, output)
				}
				proven++
			}
			if how, output := w.confined(t, e); how != "" {
				failed++
				t.Errorf("%s:\n%s\n%s", how, e.script, output)
			}
		})
	}
	fmt.Printf("%d escapes tried as user %d (%s), %d of them shown to work outside of the sandbox, %d succeeded\n", len(tried), os.Getuid(), w.box.way, proven, failed)
}

// leaveOpen opens a file that children inherit.
func leaveOpen(t *testing.T, secret string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "open")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(secret); err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup3(int(f.Fd()), inheritedFile, 0); err != nil {
		t.Fatal(err)
	}
}
