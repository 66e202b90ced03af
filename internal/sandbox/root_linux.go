package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stagingRoot is where the new root is assembled. The mounts below it have been detached
// before.
const stagingRoot = "/usr"

// buildRoot creates a root for the namespace: a small file system in memory with only the trees
// in it. The process must be the first of the namespace.
func buildRoot(s spec) error {
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("parting from the machine's mounts: %w", err)
	}
	mounts, err := detachTrees(append(systemTreesBeside(s.Trees), s.Trees...))
	if err != nil {
		return err
	}
	devices, err := takeDevices()
	if err != nil {
		return err
	}
	if err := mountBase(s.Limits.Scratch); err != nil {
		return err
	}
	root, err := os.OpenRoot(stagingRoot)
	if err != nil {
		return fmt.Errorf("opening the new root: %w", err)
	}
	defer root.Close()
	if err := errors.Join(linkSystem(root), linkDevices(root)); err != nil {
		return fmt.Errorf("linking: %w", err)
	}
	if err := root.MkdirAll(strings.TrimPrefix(home, "/"), 0o700); err != nil {
		return fmt.Errorf("making a home: %w", err)
	}
	for _, m := range append(devices, mounts...) {
		if err := m.attach(root); err != nil {
			return fmt.Errorf("mounting %s: %w", m.at, err)
		}
	}
	return enterRoot()
}

// detachedMount is a mount that is not attached yet.
type detachedMount struct {
	at   string
	file *os.File
}

// detachTrees creates mounts of trees, parents before their children.
func detachTrees(trees []tree) ([]detachedMount, error) {
	slices.SortStableFunc(trees, func(a, b tree) int { return cmp.Compare(a.At, b.At) })
	var all []detachedMount
	for _, t := range trees {
		file, err := t.detach()
		if err != nil {
			return nil, fmt.Errorf("taking %s: %w", t.At, err)
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
		if !t.Writable {
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		}
		if err := unix.MountSetattr(int(file.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return nil, fmt.Errorf("protecting %s: %w", t.At, err)
		}
		all = append(all, detachedMount{t.At, file})
	}
	return all, nil
}

// detach returns the mount that the worker has created for a tree, or creates it.
func (t tree) detach() (*os.File, error) {
	switch {
	case t.File != 0:
		return os.NewFile(uintptr(t.File), t.At), nil
	case t.System:
		return openTree(unix.AT_FDCWD, t.At)
	}
	// The file that the worker opened belongs to the worker's mount namespace, where no mount
	// can be created from here.
	if err := t.reopen(); err != nil {
		return nil, err
	}
	defer t.file.Close()
	return t.mount()
}

// mount creates a mount of the opened file.
func (t tree) mount() (*os.File, error) { return openTree(int(t.file.Fd()), "") }

// openTree creates a detached mount of a path, or of an open file.
func openTree(at int, path string) (*os.File, error) {
	fd, err := unix.OpenTree(at, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

func takeDevices() ([]detachedMount, error) {
	var all []detachedMount
	for _, path := range devicePaths {
		file, err := openTree(unix.AT_FDCWD, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("taking %s: %w", path, err)
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC}
		if err := unix.MountSetattr(int(file.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return nil, fmt.Errorf("protecting %s: %w", path, err)
		}
		all = append(all, detachedMount{path, file})
	}
	return all, nil
}

// attach attaches the mount at its path, without following links.
func (t detachedMount) attach(root *os.Root) error {
	defer t.file.Close()
	at := strings.TrimPrefix(t.at, "/")
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = root.MkdirAll(at, 0o755)
	} else {
		err = makeFile(root, at)
	}
	if err != nil {
		return err
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	target, err := unix.Openat2(int(dir.Fd()), at, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return err
	}
	err = unix.MoveMount(int(t.file.Fd()), "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return errors.Join(err, unix.Close(target))
}

func makeFile(root *os.Root, at string) error {
	if err := root.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if _, err := root.Stat(at); err == nil {
		return nil
	}
	file, err := root.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// mountBase mounts what does not come from the machine.
func mountBase(scratch uint64) error {
	size := ",size=" + strconv.FormatUint(scratch, 10)
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		at, kind, options string
		flags             uintptr
	}{
		{"", "tmpfs", "mode=0755,size=1m", safe},
		{"/proc", "proc", "", safe | unix.MS_NOEXEC},
		{"/dev", "tmpfs", "mode=0755,size=64k", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"/dev/shm", "tmpfs", "mode=1777" + size, safe},
		{"/tmp", "tmpfs", "mode=1777" + size, safe},
	} {
		if err := os.MkdirAll(stagingRoot+m.at, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", m.at, err)
		}
		if err := unix.Mount(m.kind, stagingRoot+m.at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mounting a new %s at /%s: %w", m.kind, strings.TrimPrefix(m.at, "/"), err)
		}
	}
	return nil
}

// systemTrees returns the system paths that are not links.
func systemTrees() []tree {
	var trees []tree
	for _, path := range systemPaths() {
		if _, link := systemLink(path); !link {
			trees = append(trees, tree{At: path, System: true})
		}
	}
	return trees
}

// systemTreesBeside returns the system paths that other trees do not show already. Within those, a
// link may be in the place of a mount.
func systemTreesBeside(trees []tree) []tree {
	var shown []string
	for _, t := range trees {
		if !t.Writable {
			shown = append(shown, t.At)
		}
	}
	return slices.DeleteFunc(systemTrees(), func(t tree) bool { return below(t.At, shown) })
}

func linkSystem(root *os.Root) error {
	for _, path := range systemDirs {
		if target, link := systemLink(path); link {
			if err := root.Symlink(target, strings.TrimPrefix(path, "/")); err != nil {
				return err
			}
		}
	}
	return nil
}

func linkDevices(root *os.Root) error {
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := root.Symlink(target, "dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// enterRoot changes to the assembled root, detaches the old one, and makes the directories
// between the trees read-only.
func enterRoot() error {
	if err := unix.Chdir(stagingRoot); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the machine's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	for _, path := range []string{"/", "/dev"} {
		if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &readOnly); err != nil {
			return fmt.Errorf("protecting %s: %w", path, err)
		}
	}
	return nil
}
