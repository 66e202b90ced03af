package tool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// owner is whose a file is. A worker run by root gives away what it makes in a directory
// of somebody else, who could neither read nor change it otherwise. What other workers
// make is theirs.
type owner struct{ uid, gid int }

func ownerOf(info fs.FileInfo) (owner, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, errors.New("its owner can't be told")
	}
	return owner{int(stat.Uid), int(stat.Gid)}, nil
}

// around is the owner of the directory that holds what has the name.
func parentOwner(root *os.Root, name string) (owner, error) {
	info, err := root.Stat(filepath.Dir(name))
	if err != nil {
		return owner{}, err
	}
	return ownerOf(info)
}

// take makes something the owner's that this process has made.
func (o owner) apply(chown func(uid, gid int) error) error {
	if os.Geteuid() != 0 {
		return nil
	}
	err := chown(o.uid, o.gid)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // a root that may not, or that knows of no such user, as in a container
	}
	return err
}

// MakeFile makes a file that was not there, to write to. It is his who has the directory.
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

// MakeDirs makes what is missing of the path of a directory. Each is his who has the one
// that holds it.
func MakeDirs(root *os.Root, dir string, mode fs.FileMode) error {
	if os.Geteuid() == 0 {
		parts := strings.Split(filepath.Clean(dir), string(filepath.Separator))
		for i := range parts {
			part := filepath.Join(parts[:i+1]...)
			if root.Mkdir(part, mode) != nil {
				continue // what is wrong is said in the end
			}
			if err := chownToParent(root, part); err != nil {
				return err
			}
		}
	}
	return root.MkdirAll(dir, mode)
}

// GiveDir makes a directory that this process has made his who has another one.
func ChownLike(made string, like fs.FileInfo) error {
	owner, err := ownerOf(like)
	if err != nil {
		return err
	}
	return owner.apply(func(uid, gid int) error { return os.Lchown(made, uid, gid) })
}

// takeDir makes a directory his who has the one that holds it.
func chownToParent(root *os.Root, dir string) error {
	owner, err := parentOwner(root, dir)
	if err != nil {
		return err
	}
	return owner.apply(func(uid, gid int) error { return root.Lchown(dir, uid, gid) })
}
