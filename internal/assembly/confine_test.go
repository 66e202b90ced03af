package assembly

import (
	"log/slog"
	"strings"
	"testing"
)

// TestConfinedInWorkspaces starts where no command could work: with --workspaces that directory
// is none of the worker's business. It is not parallel, since the process has one directory.
func TestConfinedInWorkspaces(t *testing.T) {
	root := t.TempDir()
	w := Worker{Workspaces: root, Logger: slog.New(slog.DiscardHandler)}
	w.Sandbox.Sandbox = "best-effort"
	confined := func(t *testing.T, from string) string {
		t.Chdir(from)
		s, err := w.newSandbox(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.String()
	}
	want := ""
	t.Run("in ROOT", func(t *testing.T) { want = confined(t, root) })
	t.Run("in /", func(t *testing.T) {
		if got := confined(t, "/"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	})
	// It is the root that has to be one for commands.
	t.Chdir(root)
	w.Workspaces = "/"
	if _, err := w.newSandbox(t.Context()); err == nil || !strings.Contains(err.Error(), "the workspace") {
		t.Errorf("with / for a root: %v", err)
	}
}
