package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// nest creates directories in one another, and a file and a link in each.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	for i := 0; err == nil && i < depth; i++ {
		next, below := (*os.Root)(nil), "d"+strconv.Itoa(i)
		err = errors.Join(at.Mkdir(below, 0o755), at.WriteFile("f", nil, 0o400), at.Symlink("..", "link"))
		if err == nil {
			next, err = at.OpenRoot(below)
		}
		err = errors.Join(err, at.Close())
		at = next
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
}

// mostOpened removes a directory and returns the most files that were open meanwhile.
func mostOpened(t *testing.T, dir string) int {
	t.Helper()
	ended, most := make(chan error), 0
	go func() { ended <- RemoveDir(dir) }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return most
		default:
			open, err := os.ReadDir("/dev/fd")
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, len(open))
		}
	}
}

// Directories that a command has nested without end must not take all the open files and the memory
// of the process that removes them.
func TestRemoveDeepDirectories(t *testing.T) { //nolint:paralleltest // It counts the open files of the process.
	dir := filepath.Join(t.TempDir(), "made")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	nest(t, dir, 500)
	before, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	if most := mostOpened(t, dir); most > len(before)+20 {
		t.Errorf("%d files were open, %d before", most, len(before))
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestRemoveFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.MkdirAll(filepath.Join(kept, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	if err := errors.Join(os.Mkdir(made, 0o755), os.Symlink("../kept", filepath.Join(made, "link")), os.Symlink("kept", filepath.Join(dir, "other"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{made, filepath.Join(dir, "other"), filepath.Join(dir, "missing")} {
		if err := RemoveDir(name); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(kept, "below")); err != nil {
		t.Errorf("what a link leads to: %v", err)
	}
}
