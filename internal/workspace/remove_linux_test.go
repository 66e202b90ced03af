package workspace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

const stranger = 1234

// asStranger does something with files as a user whom their modes mean something to.
func asStranger(do func() error) error {
	if os.Getuid() != 0 {
		return do()
	}
	runtime.LockOSThread() // it is this thread's user alone
	defer runtime.UnlockOSThread()
	_, err := unix.SetfsuidRetUid(stranger)
	err = errors.Join(err, do())
	_, back := unix.SetfsuidRetUid(0)
	return errors.Join(err, back)
}

// TestReadOnlyIsRemoved: tools leave caches that may not be written to, which is no change.
func TestReadOnlyIsRemoved(t *testing.T) {
	t.Parallel()
	w := plant(t, ".gitignore", "cache/\n")
	id := newTask()
	place, leave := w.grow("1", id)
	write(t, filepath.Join(place.Dir(), "cache/mod/x/f"), "x")
	give := func(user int) { must(t, exec.Command("chown", "-R", strconv.Itoa(user), w.dir).Run()) }
	if os.Getuid() == 0 {
		give(stranger)
	}
	for _, closed := range []string{"cache/mod/x", "cache/mod"} {
		must(t, os.Chmod(filepath.Join(place.Dir(), closed), 0o555))
	}
	must(t, w.inRepository(t.Context(), w.dir, func(repo *repository) error {
		return asStranger(func() error { return repo.discard(place.own[0]) })
	}))
	give(os.Getuid())
	leave()
	place, leave = w.grow("2", id)
	if got := w.end(place, leave); got != "" {
		t.Errorf("it tells %q", got)
	}
	w.clean()
}

// TestWhatGitCannotReadStays: git only warns of a directory that it cannot read, and says nothing of
// what is in it.
func TestWhatGitCannotReadStays(t *testing.T) {
	t.Parallel()
	w := plant(t)
	place, leave := w.grow("1", newTask())
	work := filepath.Join(place.Dir(), "closed/work")
	write(t, work, "mine")
	must(t, os.Chmod(filepath.Dir(work), 0o300))
	defer os.Chmod(filepath.Dir(work), 0o700) //nolint:gosec // so that it can be removed
	if got := place.ChangesNote(t.Context()); got == "" {
		t.Error("it tells nothing")
	}
	if err := place.RemoveIfUnchanged(t.Context()); err != nil {
		t.Log(err)
	}
	if got := read(t, work); got != "mine" {
		t.Errorf("the work is %q", got)
	}
	leave()
}
