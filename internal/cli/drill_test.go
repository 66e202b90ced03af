package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestADrillNamesItsDirectoryWhole, since its parts look for sockets there.
func TestADrillNamesItsDirectoryWhole(t *testing.T) {
	here, err := os.MkdirTemp("", "d") //nolint:usetesting // t.TempDir has paths that are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(here) })
	t.Chdir(here)
	t.Setenv("TMPDIR", ".")
	for name, d := range map[string]drillCommand{"kept": {Keep: "kept"}, "not kept": {}} {
		if dir, err := d.dir(); err != nil || !filepath.IsAbs(dir) {
			t.Errorf("%s: it is in %s, %v", name, dir, err)
		}
	}
}

// TestADrillMeasuresALinkedWorkspace, not the link.
func TestADrillMeasuresALinkedWorkspace(t *testing.T) {
	t.Parallel()
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(filepath.Join(dir, "large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Truncate(filepath.Join(dir, "large"), maxDrillWorkspace+1), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	var usage *usageError
	if err := checkWorkspaceSize(link); !errors.As(err, &usage) {
		t.Errorf("a workspace that is too large: %v", err)
	}
}
