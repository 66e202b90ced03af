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

// tree is a part of the machine's files that a command sees.
//
// Those that are not the system's lie where other commands may put links, at any
// moment. So the worker opens them with no link on the way, and they stay the same
// from then on: a stage that can't be given what was opened opens it by its path in
// the same way, and compares.
type tree struct {
	At       string
	Writable bool
	System   bool // links of the machine may lead to it
	// File is the number of the supervisor's file that is the mount; 0: it makes the
	// mount itself, of what it finds there.
	File int
	Dev  uint64 // with Ino: which file of the machine it is; not of the system's
	Ino  uint64
	// Group: it hands its group on to what is made in it (setgid), and that is not root's.
	Group bool

	of   owner
	file *os.File // what was opened
}

// trees opens what a command sees beside the system's; its directory is the first that
// is writable. Also with an error the caller closes them.
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

// open opens what is at the path by now.
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

// reopen opens in a stage what the worker has opened.
func (t *tree) reopen() error {
	is, err := t.open()
	if err == nil && (deviceOf(is) != t.Dev || is.Ino != t.Ino) {
		err = fmt.Errorf("%s is another now than when it was opened", t.At)
	}
	return err
}

// deviceOf has a type that differs between machines.
func deviceOf(is unix.Stat_t) uint64 {
	return uint64(is.Dev) //nolint:unconvert // Elsewhere it has 32 bits.
}

// procPath is a path to what was opened, whatever is at its own by then.
func (t *tree) procPath() string { return "/proc/self/fd/" + strconv.Itoa(int(t.file.Fd())) }

var errLink = errors.New("it is a symbolic link, and in the directories of commands none is followed")

// openNoFollow opens what is at an absolute path, for reference only, without following
// a symbolic link: a part of the path that is one is an error, but for the last where
// that need not be a directory, which is opened itself. It goes part by part, so one
// who changes the path meanwhile leads it to what he has moved, and no further.
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
