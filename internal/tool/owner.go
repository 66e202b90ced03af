package tool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// owner is the owner of a file. A worker that runs as root gives the files that it creates to the
// owner of their directory, who otherwise could neither read nor change them. Other workers keep
// what they create.
type owner struct{ uid, gid int }

func ownerOf(info fs.FileInfo) (owner, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, errors.New("its owner can't be told")
	}
	return owner{int(stat.Uid), int(stat.Gid)}, nil
}

// parentOwner returns the owner of the directory that contains name.
func parentOwner(root *os.Root, name string) (owner, error) {
	info, err := root.Stat(filepath.Dir(name))
	if err != nil {
		return owner{}, err
	}
	return ownerOf(info)
}

// apply gives a new file to the owner.
func (o owner) apply(chown func(uid, gid int) error) error {
	if os.Geteuid() != 0 {
		return nil
	}
	err := chown(o.uid, o.gid)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // root without the capability, or without such a user, as in a container
	}
	return err
}

// MakeFile creates a file that must not exist, and opens it for writing. The file belongs to the
// owner of its directory.
func MakeFile(root *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	owner, err := parentOwner(root, name)
	if err == nil {
		err = owner.apply(file.Chown)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), root.Remove(name))
	}
	return file, nil
}

// MakeDirs creates the missing directories of a path. Each belongs to the owner of its parent.
func MakeDirs(root *os.Root, dir string, mode fs.FileMode) error {
	if os.Geteuid() == 0 {
		if err := makeOwnedDirs(root, dir, mode); err != nil {
			return err
		}
	}
	return root.MkdirAll(dir, mode)
}

// makeOwnedDirs does so until one can't be created, the reason for which MkdirAll reports. A path can
// have thousands of them, so each is created in the one before, and not looked up from the root.
func makeOwnedDirs(root *os.Root, dir string, mode fs.FileMode) error {
	parts := strings.Split(filepath.Clean(dir), string(filepath.Separator))
	existing := len(parts)
	for existing > 0 && !exists(root, filepath.Join(parts[:existing]...)) {
		existing--
	}
	parent, err := root.OpenRoot(filepath.Join(".", filepath.Join(parts[:existing]...)))
	for i := existing; err == nil && parent != nil && i < len(parts); i++ {
		parent, err = makeOwnedDir(parent, parts[i], mode)
	}
	if parent != nil {
		return parent.Close()
	}
	return err
}

// makeOwnedDir creates a directory, unless somebody else was first, and opens it; nil if it can't be
// created. It closes the parent.
func makeOwnedDir(parent *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	defer parent.Close()
	switch err := parent.Mkdir(name, mode); {
	case errors.Is(err, fs.ErrExist):
		return parent.OpenRoot(name)
	case err != nil:
		return nil, nil
	}
	if err := chownToParent(parent, name); err != nil {
		return nil, err
	}
	return parent.OpenRoot(name)
}

func exists(root *os.Root, name string) bool {
	_, err := root.Stat(name)
	return err == nil
}

// ChownLike gives a directory that this process has created to the owner of another one.
func ChownLike(made string, like fs.FileInfo) error {
	owner, err := ownerOf(like)
	if err != nil {
		return err
	}
	return owner.apply(func(uid, gid int) error { return os.Lchown(made, uid, gid) })
}

// chownToParent gives a directory to the owner of its parent.
func chownToParent(root *os.Root, dir string) error {
	owner, err := parentOwner(root, dir)
	if err != nil {
		return err
	}
	return owner.apply(func(uid, gid int) error { return root.Lchown(dir, uid, gid) })
}
