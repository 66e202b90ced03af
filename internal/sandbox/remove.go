package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll is like [os.Root.RemoveAll], and also removes the content of directories without
// write permission. Some tools leave such caches.
func RemoveAll(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if err == nil {
		return nil
	}
	unlocked := unlock(root, name)
	if err := root.RemoveAll(name); err != nil {
		return errors.Join(err, unlocked)
	}
	return nil
}

// RemoveDir removes a directory and what commands have created in it.
func RemoveDir(dir string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(RemoveAll(parent, filepath.Base(dir)), parent.Close())
}

// unlock makes a directory and everything below it writable for this user. It follows no link.
func unlock(parent *os.Root, name string) error {
	if info, err := parent.Lstat(name); err != nil || !info.IsDir() {
		return err
	}
	if err := parent.Chmod(name, 0o700); err != nil {
		return err
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, unlock(dir, e.Name()))
		}
	}
	return err
}
