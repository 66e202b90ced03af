package skill

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

const (
	// maxEntries bounds the entries of a place, and of a skill's folder with everything below it.
	maxEntries = 10_000
	// maxDepth bounds how deep in a skill's folder files are listed.
	maxDepth = 20
	// maxFiles bounds the listed files of a skill.
	maxFiles = 200
)

// firstEntries returns the first n entries of a directory by name, and whether there are more. It
// holds about 2n entries, however large the directory is.
func firstEntries(ctx context.Context, root *os.Root, dir string, n int) (entries []fs.DirEntry, more bool, err error) {
	file, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		some, err := file.ReadDir(1024)
		entries = append(entries, some...)
		ended := errors.Is(err, io.EOF)
		if ended || len(entries) >= 2*n {
			slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
			more = more || len(entries) > n
			entries = entries[:min(n, len(entries))]
		}
		switch {
		case ended:
			return entries, more, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// lister lists the files of a skill's folder.
type lister struct {
	root  *os.Root
	files []string
	left  int  // entries that may still be examined
	cut   bool // there may be more files than are listed
}

// list lists the files below a directory except SKILL.md and what is hidden, with slashes, in
// order. What cannot be read is not listed. It fails only when ctx ends.
func (l *lister) list(ctx context.Context, dir string, depth int) error {
	if depth > maxDepth || l.left == 0 {
		l.cut = true
		return nil
	}
	entries, more, err := firstEntries(ctx, l.root, dir, l.left)
	if err != nil {
		return ctx.Err()
	}
	l.left -= len(entries)
	l.cut = l.cut || more
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case name == fileName || strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			if err := l.list(ctx, name, depth+1); err != nil {
				return err
			}
		case len(l.files) == maxFiles:
			l.cut = true
			return nil
		default:
			l.files = append(l.files, name)
		}
	}
	return nil
}
