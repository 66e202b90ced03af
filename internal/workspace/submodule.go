package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// hasSubmodules reports whether submodules of a worktree have content: files at the path of a
// submodule in the index, or repositories. It reads only the worktree's own data, so nothing
// that a submodule names can run.
func (r *repository) hasSubmodules(ctx context.Context, w worktree, head string) (bool, error) {
	if there, err := r.exists(filepath.Join(w.admin(), "modules")); err != nil || there {
		return there, err
	}
	links := &gitlinks{isNonEmpty: func(name string) bool { return r.isNonEmpty(filepath.Join(w.dir, name)) }}
	if _, err := r.runIsolatedTo(ctx, links, w, head, "ls-files", "--stage", "-z"); err != nil {
		return false, err
	}
	return links.found, nil
}

// isNonEmpty reports whether there is something other than an empty directory.
func (r *repository) isNonEmpty(name string) bool {
	dir, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer dir.Close()
	_, err = dir.ReadDir(1)
	return !errors.Is(err, io.EOF)
}

// gitlinks parses a list of index entries of any length, and checks whether one of its
// submodules is not empty.
type gitlinks struct {
	isNonEmpty func(name string) bool
	found      bool
	rest       []byte // the incomplete entry
}

// maxEntry bounds the buffered part of an entry, in bytes. It exceeds the maximum length of a
// path.
const maxEntry = 64 << 10

// Write fails if the input is not such a list.
func (l *gitlinks) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for !l.found {
		entry, rest, whole := bytes.Cut(l.rest, []byte{0})
		if !whole {
			break
		}
		l.rest = rest
		about, name, _ := bytes.Cut(entry, []byte{'\t'})
		l.found = bytes.HasPrefix(about, []byte("160000 ")) && l.isNonEmpty(string(name))
	}
	if l.found {
		l.rest = nil
	}
	if len(l.rest) > maxEntry {
		return 0, fmt.Errorf("an entry of the index has more than %d bytes", maxEntry)
	}
	return len(p), nil
}
