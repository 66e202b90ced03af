package mcp

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMoveOut: what may not be written to does not keep the directory of a server, whose worker need not be root.
func TestMoveOut(t *testing.T) {
	t.Parallel()
	s := &server{ownDir: filepath.Join(t.TempDir(), "own"), log: slog.New(slog.DiscardHandler)}
	closed := filepath.Join(s.ownDir, "mod")
	if err := errors.Join(os.MkdirAll(closed, 0o700), os.WriteFile(filepath.Join(closed, "f"), nil, 0o600), os.Chmod(closed, 0o555)); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		for _, path := range []string{filepath.Dir(s.ownDir), s.ownDir, closed} {
			if err := os.Chown(path, stranger, stranger); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Dir(filepath.Dir(s.ownDir)), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := asStranger(func() { s.removeOwnDir(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.ownDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left behind: %v", errors.Join(err, os.Chmod(closed, 0o700)))
	}
}

const stranger = 1234

// asStranger does something with files as a user whom their modes mean something to.
func asStranger(do func()) error {
	if os.Getuid() != 0 {
		do()
		return nil
	}
	runtime.LockOSThread() // it is this thread's user alone
	defer runtime.UnlockOSThread()
	_, err := unix.SetfsuidRetUid(stranger)
	do()
	_, back := unix.SetfsuidRetUid(0)
	return errors.Join(err, back)
}
