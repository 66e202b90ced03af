package cli

import (
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
