package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoWorkspaceForCommands: that commands can't work in a directory takes no layer away.
func TestNoWorkspaceForCommands(t *testing.T) {
	t.Parallel()
	const user = 1234
	private := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(private, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // for whom a command is started as the owner, or as one that looks like him
		if err := os.Chown(private, user, user); err != nil {
			t.Fatal(err)
		}
	}
	for name, ways := range map[string][]way{"": nil, " without namespaces": {}} {
		for dir, want := range map[string]string{
			"/": "root of the file system", private: "permission denied", filepath.Join(private, "missing"): "no such file",
		} {
			if s, err := New(Config{Mode: BestEffort, Workspace: dir, ways: ways}); err == nil {
				t.Errorf("%s%s: %s", dir, name, s)
			} else if !strings.Contains(err.Error(), want) {
				t.Errorf("%s%s: %v", dir, name, err)
			}
		}
	}
}
