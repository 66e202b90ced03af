package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
)

const (
	// walkPage is how many entries of one directory a walk holds at a time. A larger directory is
	// read again for each further page.
	walkPage = 1 << 17
	// walkDepth is the maximum depth of a walk.
	walkDepth = 100
	// gitDir is excluded from every listing, because it is large and contains no sources.
	gitDir = ".git"
)

// entry is an entry of a directory. The name of a directory ends with a slash, so that entries
// sort in the order of the paths below them.
type entry struct {
	name    string
	regular bool
}

func (e entry) isDir() bool { return strings.HasSuffix(e.name, "/") }

// list returns the first n entries of a directory that sort after after, in order, and the total
// number of such entries. It holds about 2n entries, however large the directory is.
func (w *Workspace) list(ctx context.Context, dir, after string, n int) (entries []entry, total int, err error) {
	file, err := w.open(dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		some, err := file.ReadDir(1024)
		for _, d := range some {
			if e := asEntry(d); e.name > after && d.Name() != gitDir {
				entries = append(entries, e)
				total++
			}
		}
		if len(entries) >= 2*n {
			entries = firstSorted(entries, n)
		}
		if errors.Is(err, io.EOF) {
			return firstSorted(entries, n), total, nil
		}
		if err != nil {
			return nil, 0, pathError(dir, err)
		}
	}
}

func asEntry(d fs.DirEntry) entry {
	if d.IsDir() {
		return entry{name: d.Name() + "/"}
	}
	return entry{name: d.Name(), regular: d.Type().IsRegular()}
}

func firstSorted(entries []entry, n int) []entry {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries[:min(n, len(entries))]
}

// files yields the regular files below a directory, in the order of their paths. It does not
// follow symbolic links. It skips .git, and also OutputDir and WorktreesDir unless it starts
// there. What cannot be read is yielded with its error, and the walk continues. The walk ends when
// ctx ends.
func (w *Workspace) files(ctx context.Context, dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		k := walker{workspace: w, page: walkPage, yield: yield}
		k.walk(ctx, dir, 0)
	}
}

// isInternalDir reports whether Coppice manages the directory.
func isInternalDir(dir string) bool { return dir == OutputDir || dir == WorktreesDir }

type walker struct {
	workspace *Workspace
	page      int
	yield     func(string, error) bool
}

// walk reports whether to continue.
func (k *walker) walk(ctx context.Context, dir string, depth int) bool {
	if depth > walkDepth {
		return k.yield(dir, fmt.Errorf("%s: more than %d directories deep", displayPath(dir), walkDepth))
	}
	for after := ""; ; {
		entries, total, err := k.workspace.list(ctx, dir, after, k.page)
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			return k.yield(dir, err)
		}
		for _, e := range entries {
			if !k.visit(ctx, dir, e, depth) {
				return false
			}
		}
		if total == len(entries) {
			return true
		}
		after = entries[len(entries)-1].name
	}
}

func (k *walker) visit(ctx context.Context, dir string, e entry, depth int) bool {
	switch {
	case ctx.Err() != nil:
		return false
	case e.isDir() && isInternalDir(path.Join(dir, e.name)):
		return true
	case e.isDir():
		return k.walk(ctx, path.Join(dir, e.name), depth+1)
	case e.regular:
		return k.yield(path.Join(dir, e.name), nil)
	}
	return true
}
