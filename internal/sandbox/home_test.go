package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const homeVariable = "COPPICE_TEST_HOME"

// TestHomesAreRemoved has workers without namespaces, also such that are not root and
// so can't just remove what may not be written to.
func TestHomesAreRemoved(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		uid  uint32
		mode Mode
	}{{0, BestEffort}, {0, Off}, {nobodyID, BestEffort}, {nobodyID, Off}} {
		t.Run(fmt.Sprintf("%d %s", k.uid, k.mode), func(t *testing.T) {
			t.Parallel()
			needUser(t, k.uid)
			out, err := asUser(t, k.uid, "^TestHomesAreRemovedInWorker$", fmt.Sprintf("%s=%s,%s", homeVariable, k.mode, wayNone)).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestHomesAreRemovedInWorker is the worker of TestHomesAreRemoved.
func TestHomesAreRemovedInWorker(t *testing.T) {
	if os.Getenv(homeVariable) == "" {
		t.Log("it is for a process of its own, which TestHomesAreRemoved starts")
		return
	}
	box, _ := workerFrom(t, homeVariable)
	for _, tt := range []struct{ name, script, want string }{
		{"nothing", `true`, ""},
		{"a cache", `mkdir -p ~/mod/x/y && touch ~/mod/f ~/mod/x/y/f && chmod -R a-w ~/mod`, ""},
		{"what can't be read", `mkdir -p ~/a/b && touch ~/a/b/f && chmod 0 ~/a/b ~/a`, ""},
		{"a home that is closed", `touch ~/f && chmod 0 ~`, ""},
		{"after a failure", `mkdir ~/a && touch ~/a/f && chmod 500 ~/a; exit 3`, "exit status 3"},
		{"a link to elsewhere", `mkdir mine ~/a && ln -s "$PWD/mine" ~/a/link && chmod 500 mine ~/a`, ""},
	} {
		dir := t.TempDir()
		out, err := output(t, box, Command{Argv: []string{"bash", "-c", tt.script}, Dir: dir}, "")
		if err != nil {
			out += err.Error()
		}
		if out != tt.want {
			t.Errorf("%s: %q, not %q", tt.name, out, tt.want)
		}
		if left, err := filepath.Glob(filepath.Join(os.TempDir(), "coppice-command-*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %v, %v", tt.name, left, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "mine")); err == nil && info.Mode().Perm() != 0o500 {
			t.Errorf("%s: a directory elsewhere has become %s", tt.name, info.Mode())
		}
	}
}
