package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody is the user and the group that commands of a worker run by root have.
const nobody = 65534

// owner is whose a directory is.
type owner struct{ uid, gid int }

func ownerOf(path string) (owner, error) {
	info, err := os.Stat(path)
	if err != nil {
		return owner{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, errors.New("its owner can't be told")
	}
	return owner{int(stat.Uid), int(stat.Gid)}, nil
}

// owners keeps, for each owner, a namespace of users in which that owner is nobody. A
// mount made with it shows the owner's files as nobody's, and what nobody makes there
// is the owner's on the disk.
type owners struct {
	mu    sync.Mutex
	known map[owner]*os.File
}

func (o *owners) namespace(of owner) (*os.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.known[of]; f != nil {
		return f, nil
	}
	f, err := newUserNamespace(of)
	if err != nil {
		return nil, fmt.Errorf("making a namespace of users: %w", err)
	}
	if o.known == nil {
		o.known = map[owner]*os.File{}
	}
	o.known[of] = f
	return f, nil
}

// newUserNamespace starts a process that only holds the namespace until it is opened.
func newUserNamespace(of owner) (*os.File, error) {
	cmd := exec.Command("/proc/self/exe", marker, stageHold)
	cmd.Env = stageEnviron
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: of.uid, HostID: nobody, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: of.gid, HostID: nobody, Size: 1}},
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/user")
	if ended := errors.Join(stdin.Close(), cmd.Wait()); err == nil {
		err = ended
	}
	return f, err
}

// hold is the stage that lives until its input ends.
func hold() int {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return codeFailed
	}
	return 0
}

// identity is the user that commands run as, and the mounts that this takes.
type identity struct {
	owner
	trees []tree
	files []*os.File
}

func (i *identity) close() {
	for _, f := range i.files {
		f.Close()
	}
}

// identify finds the user for a command of a worker run by root: nobody, who sees the
// files of the directories' owners as his own. Where the file system can't do that,
// it is the owner, unless that is root.
func (s *Sandbox) identify(c Command) (_ *identity, err error) {
	i := &identity{owner: owner{nobody, nobody}}
	defer func() {
		if err != nil {
			i.close()
		}
	}()
	for _, path := range s.readable {
		if err := i.take(path, nil); err != nil {
			return nil, fmt.Errorf("taking %s: %w", path, err)
		}
	}
	for n, path := range append([]string{c.Dir}, c.Writable...) {
		of, err := ownerOf(path)
		if err != nil {
			return nil, fmt.Errorf("finding the owner of a directory: %w", err)
		}
		users, err := s.owners.namespace(of)
		if err != nil {
			return nil, err
		}
		err = i.take(path, users)
		switch {
		case err == nil && (n == 0 || i.uid == nobody):
			continue
		case err == nil:
			return nil, fmt.Errorf("letting a command write to %s: its owner can be shown as another user, and that of %s can't", path, c.Dir)
		case !errors.Is(err, unix.EINVAL), of.uid == 0, n > 0 && i.owner != of:
			return nil, fmt.Errorf("letting a command that is not root's write to %s, which belongs to user %d: showing it as another's: %w", path, of.uid, err)
		}
		i.owner = of
		if err := i.take(path, nil); err != nil {
			return nil, fmt.Errorf("taking %s: %w", path, err)
		}
		i.trees[len(i.trees)-1].Writable = true
	}
	return i, nil
}

// take makes a mount of a path. With users it is writable, and belongs to whom they say.
func (i *identity) take(path string, users *os.File) error {
	file, err := openTree(path)
	if err != nil {
		return err
	}
	if users != nil {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
		if err := unix.MountSetattr(int(file.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	i.trees = append(i.trees, tree{At: path, Writable: users != nil, File: fileTrees + len(i.files)})
	i.files = append(i.files, file)
	return nil
}
