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
	// walkPage is how many entries of one directory a walk holds at a time. A
	// larger directory is read again for each further page.
	walkPage = 1 << 17
	// walkDepth is how far below its start a walk goes.
	walkDepth = 100
	// gitDir is left out of every listing: it is large and no one's source.
	gitDir = ".git"
)

// entry is a member of a directory. A directory's name ends with a slash, so
// that the order of entries is the order of the paths below them.
type entry struct {
	name    string
	regular bool
}

func (e entry) isDir() bool { return strings.HasSuffix(e.name, "/") }

// list gives the first n entries of a directory after the one named after, in
// order, and how many entries come after it altogether. However large the
// directory is, about 2n entries are held.
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

// files gives the regular files below a directory, in the order of their paths.
// It follows no symbolic links and leaves out what is named .git, and unless it starts
// there what is kept of results and the worktrees of sub-agents. What cannot be
// read comes with its error, and the walk goes on; when ctx ends the walk ends.
func (w *Workspace) files(ctx context.Context, dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		k := walker{workspace: w, page: walkPage, yield: yield}
		k.walk(ctx, dir, 0)
	}
}

// unlisted reports whether what is below a directory is the program's own.
func isInternalDir(dir string) bool { return dir == OutputDir || dir == WorktreesDir }

type walker struct {
	workspace *Workspace
	page      int
	yield     func(string, error) bool
}

// walk reports whether to go on.
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
