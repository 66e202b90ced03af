package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll is like [os.Root.RemoveAll], and also removes the content of directories without
// write permission. Some tools leave such caches. It needs few open files and little memory,
// however deep the directories are: commands may have nested them without end.
func RemoveAll(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		err = empty(root, name, info)
	}
	if err == nil {
		err = root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveDir removes a directory and what commands have created in it.
func RemoveDir(dir string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(RemoveAll(parent, filepath.Base(dir)), parent.Close())
}

// empty removes the content of a directory. It changes nothing if the name has become that of
// another one, or a link.
func empty(root *os.Root, name string, info fs.FileInfo) error {
	opened, err := openSame(root, name, info)
	if errors.Is(err, fs.ErrPermission) {
		if err := root.Chmod(name, 0o700); err != nil {
			return err
		}
		opened, err = openSame(root, name, info)
	}
	if err != nil {
		return err
	}
	defer opened.Close()
	_ = opened.Chmod(".", 0o700) // if this fails and matters, reading or removing an entry fails next
	return removeEntries(opened, ".", func(entry string) error { return removeFlat(opened, entry) })
}

func openSame(root *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	opened, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	now, err := opened.Lstat(".")
	if err == nil && !os.SameFile(info, now) {
		err = fmt.Errorf("%s is another now", name)
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// removeFlat removes a directory of top. It moves the directories in it up to top, where they are
// found later, so that none is opened within another one.
func removeFlat(top *os.Root, dir string) error {
	_ = top.Chmod(dir, 0o700) // if this fails and matters, reading or removing an entry fails next
	err := removeEntries(top, dir, func(below string) error {
		if top.Remove(below) == nil {
			return nil // it was empty
		}
		_ = top.Chmod(below, 0o700) // moving it changes its "..", so it fails next if it is not writable
		return top.Rename(below, rand.Text())
	})
	if err != nil {
		return err
	}
	return top.Remove(dir)
}

// removeEntries removes the entries of a directory until none is left. Directories are left to a
// function.
func removeEntries(top *os.Root, dir string, removeDir func(name string) error) error {
	for {
		entries, err := readSome(top, dir)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if e.IsDir() {
				err = removeDir(name)
			} else {
				err = top.Remove(name)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

// entriesAtOnce bounds how many entries of a directory are in memory, however many it has.
const entriesAtOnce = 1024

// readSome returns some entries of a directory; none if it is empty.
func readSome(top *os.Root, dir string) ([]fs.DirEntry, error) {
	file, err := top.Open(dir)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := file.ReadDir(entriesAtOnce)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}
