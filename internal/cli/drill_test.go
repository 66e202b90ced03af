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

// TestADrillCopiesWhateverAFileIsCalled: agents of a run see such files too.
func TestADrillCopiesWhateverAFileIsCalled(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, dir := range []string{"sub\xffdir", "copies"} {
		if err := os.Mkdir(filepath.Join(from, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join("sub\xffdir", "a\nscript\xff")
	if err := os.WriteFile(filepath.Join(from, script), []byte("#!/bin/sh"), 0o700); err != nil { //nolint:gosec // a script
		t.Fatal(err)
	}
	if err := os.Symlink("a\xff", filepath.Join(from, "link\xff")); err != nil {
		t.Fatal(err)
	}
	if err := copyWorkspace(to, from, filepath.Join(from, "copies")); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(to, script))
	info, statErr := os.Stat(filepath.Join(to, script))
	target, linkErr := os.Readlink(filepath.Join(to, "link\xff"))
	if err := errors.Join(err, statErr, linkErr); err != nil || string(content) != "#!/bin/sh" || info.Mode()&0o100 == 0 || target != "a\xff" {
		t.Errorf("the copies are %q of mode %s and a link to %q, %v", content, info.Mode(), target, err)
	}
	if _, err := os.Stat(filepath.Join(to, "copies")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of copies is copied: %v", err)
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
