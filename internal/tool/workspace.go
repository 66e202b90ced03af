package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
)

// Workspace is a directory that the file tools cannot leave: not with "..", an absolute path, a
// symbolic link, or a link that changes while it is followed. It is safe for concurrent use.
type Workspace struct {
	dir       string // as requested, made absolute
	resolved  string // dir without symbolic links
	extraDirs []string
	root      *os.Root
	rootInfo  fs.FileInfo // of root, when it was opened
	changing  sync.Mutex  // held while a file is checked and changed
}

var errNoWorkspace = errors.New("this run has no workspace, so there are no files to work with")

// OpenWorkspace opens a directory as a workspace. The caller closes it.
func OpenWorkspace(dir string) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	root, err := os.OpenRoot(resolved)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return statRoot(&Workspace{dir: abs, resolved: resolved, root: root})
}

// statRoot completes a workspace whose root was just opened.
func statRoot(w *Workspace) (_ *Workspace, err error) {
	if w.rootInfo, err = w.root.Stat("."); err != nil {
		return nil, fmt.Errorf("open workspace: %w", errors.Join(err, w.root.Close()))
	}
	return w, nil
}

// Subdir opens a directory of the workspace as a workspace of its own. No part of its path may be
// a symbolic link. extraDirs are for [Workspace.ExtraDirs]. The caller closes it.
func (w *Workspace) Subdir(name string, beside ...string) (*Workspace, error) {
	name, err := w.rel(name)
	if err != nil {
		return nil, err
	}
	for part := name; part != "."; part = path.Dir(part) {
		info, err := w.root.Lstat(filepath.FromSlash(part))
		if err != nil {
			return nil, fmt.Errorf("open workspace: %w", pathError(part, err))
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("open workspace: %s: not a directory", displayPath(part))
		}
	}
	root, err := w.root.OpenRoot(filepath.FromSlash(name))
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", pathError(name, err))
	}
	return statRoot(&Workspace{
		dir: filepath.Join(w.dir, name), resolved: filepath.Join(w.resolved, name), root: root, extraDirs: beside,
	})
}

// ExtraDirs returns directories outside the workspace that commands have to change when they work
// in it, such as the repository of a git worktree. The paths are absolute and without symbolic
// links. File tools cannot access them.
func (w *Workspace) ExtraDirs() []string { return w.extraDirs }

// Resolved returns [Workspace.Dir] without symbolic links, as it was when the workspace was
// opened.
func (w *Workspace) Resolved() string { return w.resolved }

// Dir returns the absolute path of the directory.
func (w *Workspace) Dir() string { return w.dir }

// OpenDir opens the directory itself, whatever its path leads to now. The caller closes it.
func (w *Workspace) OpenDir() (*os.File, error) { return w.root.Open(".") }

// AtPath reports whether the path of the workspace still leads to its directory, with and without
// symbolic links.
func (w *Workspace) AtPath() bool {
	found, err := os.Lstat(w.resolved)
	if err == nil && w.dir != w.resolved && os.SameFile(w.rootInfo, found) {
		found, err = os.Stat(w.dir)
	}
	return err == nil && os.SameFile(w.rootInfo, found)
}

// Close closes the workspace. Calls in progress fail.
func (w *Workspace) Close() error { return w.root.Close() }

// rel turns a path that a model wrote into a clean slash-separated path below the workspace. It
// checks the text only; the target is checked when it is opened.
func (w *Workspace) rel(name string) (string, error) {
	if w == nil {
		return "", errNoWorkspace
	}
	if !filepath.IsAbs(name) {
		if name = filepath.Clean(name); filepath.IsLocal(name) {
			return filepath.ToSlash(name), nil
		}
		return "", fmt.Errorf("%s: leads out of the workspace %s", displayPath(name), w.dir)
	}
	for _, dir := range []string{w.dir, w.resolved} {
		below, err := filepath.Rel(dir, name)
		if err == nil && filepath.IsLocal(below) {
			return filepath.ToSlash(below), nil
		}
	}
	return "", fmt.Errorf("%s: is outside the workspace %s", displayPath(name), w.dir)
}

// stat follows symbolic links that stay in the workspace. It fails for everything that is neither
// a regular file nor a directory.
func (w *Workspace) stat(name string) (fs.FileInfo, error) {
	info, err := w.root.Stat(filepath.FromSlash(name))
	if err != nil {
		return nil, pathError(name, err)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("%s: neither a file nor a directory, and nothing else is opened", displayPath(name))
	}
	return info, nil
}

// open opens a file or a directory for reading. It never blocks: a named pipe that replaces the
// file after the check is refused too.
func (w *Workspace) open(name string) (*os.File, error) {
	if _, err := w.stat(name); err != nil {
		return nil, err
	}
	file, err := w.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError(name, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = errors.New("changed while it was opened")
	}
	if err != nil {
		return nil, errors.Join(pathError(name, err), file.Close())
	}
	return file, nil
}

// pathError names the path as the model knows it and omits the system call.
func pathError(name string, err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", displayPath(name), err)
}
