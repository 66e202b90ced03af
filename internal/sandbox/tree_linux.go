package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a directory or file that a command sees.
//
// Except for those of the system, trees are in places where other commands may create links at
// any time. So the worker opens them without following links, and uses the opened files from
// then on. A stage that cannot inherit an open file opens the path in the same way and
// compares.
type tree struct {
	At       string
	Writable bool
	System   bool // links of the system may lead to it
	// File is the supervisor's file descriptor of the mount; 0: it creates the mount itself,
	// from the path.
	File int
	Dev  uint64 // with Ino: identity of the file; unset for system files
	Ino  uint64
	// Group: new files inherit its group (setgid), which is not root.
	Group bool

	of   owner
	file *os.File // the opened file
}

// trees opens what a command sees in addition to the system. The command's directory is the
// first writable tree. The caller closes them, even after an error.
func (s *Sandbox) trees(c Command) ([]tree, error) {
	var all []tree
	if s.mode != Off {
		for _, path := range s.readable {
			all = append(all, tree{At: path})
		}
	}
	for _, path := range append([]string{c.Dir}, c.Writable...) {
		all = append(all, tree{At: path, Writable: true})
	}
	for i := range all {
		t := &all[i]
		is, err := t.open()
		if err != nil {
			return all, err
		}
		t.Dev, t.Ino, t.of = deviceOf(is), is.Ino, owner{int(is.Uid), int(is.Gid)}
		t.Group = is.Mode&unix.S_ISGID != 0 && is.Gid != 0
	}
	return all, nil
}

func closeTrees(trees []tree) {
	for _, t := range trees {
		if t.file != nil {
			t.file.Close() // nothing was written
		}
	}
}

// open opens the path.
func (t *tree) open() (is unix.Stat_t, err error) {
	if t.file, err = openNoFollow(t.At, t.Writable); err != nil {
		return is, err
	}
	if err = unix.Fstat(int(t.file.Fd()), &is); err == nil && isLink(is) {
		err = errLink
	}
	if err != nil {
		return is, fmt.Errorf("opening %s: %w", t.At, err)
	}
	return is, nil
}

// reopen opens in a stage what the worker has opened, and compares.
func (t *tree) reopen() error {
	is, err := t.open()
	if err == nil && (deviceOf(is) != t.Dev || is.Ino != t.Ino) {
		err = fmt.Errorf("%s is another now than when it was opened", t.At)
	}
	return err
}

// deviceOf returns the device. Its type differs between machines.
func deviceOf(is unix.Stat_t) uint64 {
	return uint64(is.Dev) //nolint:unconvert // Elsewhere it has 32 bits.
}

// procPath returns a path to the opened file, whatever its own path leads to now.
func (t *tree) procPath() string { return "/proc/self/fd/" + strconv.Itoa(int(t.file.Fd())) }

var errLink = errors.New("it is a symbolic link, and in the directories of commands none is followed")

// openNoFollow opens an absolute path with O_PATH, without following symbolic links. A link in
// the path is an error, except as the last element if that need not be a directory; then the
// link itself is opened. It opens element by element, so that someone who changes the path
// meanwhile can only redirect it to what they have moved.
func openNoFollow(path string, directory bool) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open("/", flags|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /: %w", err)
	}
	parts := strings.Split(strings.TrimPrefix(filepath.Clean(path), "/"), "/")
	for i, part := range parts {
		kind := unix.O_DIRECTORY
		if i == len(parts)-1 && !directory {
			kind = 0
		}
		next, err := openPart(at, part, flags|kind)
		_ = unix.Close(at) // nothing was written
		if err != nil {
			return nil, fmt.Errorf("opening /%s: %w", filepath.Join(parts[:i+1]...), err)
		}
		at = next
	}
	return os.NewFile(uintptr(at), path), nil
}

func openPart(at int, part string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(at, part, flags, 0)
		var is unix.Stat_t
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOTDIR) && unix.Fstatat(at, part, &is, unix.AT_SYMLINK_NOFOLLOW) == nil && isLink(is):
			return -1, errLink
		}
		return fd, err
	}
}

func isLink(is unix.Stat_t) bool { return is.Mode&unix.S_IFMT == unix.S_IFLNK }
