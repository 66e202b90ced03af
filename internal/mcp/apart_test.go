package mcp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/internal/sandbox"
)

// TestApart: among the directories of sessions a server works only if it is told to. One
// that is not has a directory to itself, as long as it is kept.
func TestApart(t *testing.T) {
	t.Parallel()
	for _, mode := range []sandbox.Mode{sandbox.Required, sandbox.Off} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			workspace := t.TempDir()
			if err := os.Mkdir(filepath.Join(workspace, "session"), 0o700); err != nil {
				t.Fatal(err)
			}
			const somebody = 1234
			if os.Geteuid() == 0 {
				if err := os.Chown(workspace, somebody, somebody); err != nil {
					t.Fatal(err)
				}
			}
			alone, other, told := stdio("plain"), stdio("plain"), stdio("plain")
			other.Name, told.Name, told.Dir = "other", "told", "."
			k := keepWith(t, Config{
				Servers: []Server{alone, other, told}, Sandbox: box(t, mode), Workspace: workspace, Apart: true, times: quick(),
			})
			work := func(server string) (dir, found string) {
				t.Helper()
				got := k.callOf(server, "work", "{}")
				if got.IsError {
					t.Fatalf("%s: %s\n%s", server, got.Text, k.log)
				}
				dir, found, _ = strings.Cut(got.Text, ": ")
				return dir, found
			}
			if dir, found := work("told"); dir != workspace || found != "session" {
				t.Errorf("one that is told to work there works in %s, with %s", dir, found)
			}
			own, found := work("s")
			of, _ := work("other")
			if own == of || found != "" || strings.HasPrefix(own, workspace) {
				t.Errorf("they work in %s, with %q, and %s", own, found, of)
			}
			info, err := os.Stat(own)
			if err != nil {
				t.Fatal(err)
			}
			if uid := info.Sys().(*syscall.Stat_t).Uid; info.Mode().Perm() != 0o700 || os.Geteuid() == 0 && uid != somebody {
				t.Errorf("the directory is %s of user %d", info.Mode(), uid)
			}
			k.call("die", "{}")
			if dir, found := work("s"); dir != own || found != "left" {
				t.Errorf("started again it works in %s, with %q, not in %s", dir, found, own)
			}
			if err := os.RemoveAll(own); err != nil {
				t.Fatal(err)
			}
			k.call("die", "{}")
			next, found := work("s")
			if found != "" || strings.HasPrefix(next, workspace) {
				t.Errorf("started again without its directory it works in %s, with %q", next, found)
			}
			k.stop()
			for _, dir := range []string{own, of, next} {
				if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left behind: %v", dir, err)
				}
			}
		})
	}
}
