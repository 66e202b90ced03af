package sandbox

import (
	"cmp"
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

// nobodyID is the user and the group of commands whose worker runs as root.
const nobodyID = 65534

// owner is the owner of a directory.
type owner struct{ uid, gid int }

// owners caches, for each owner, a user namespace that maps the owner to nobody. A mount with
// this mapping shows the owner's files as nobody's, and files that nobody creates there belong
// to the owner on disk.
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

// newUserNamespace starts a process that holds the namespace until it has been opened.
func newUserNamespace(of owner) (*os.File, error) {
	cmd := exec.Command("/proc/self/exe", marker, stageHold)
	cmd.Env = stageEnviron
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: of.uid, HostID: nobodyID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: of.gid, HostID: nobodyID, Size: 1}},
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

// chooseUser chooses the user for a command whose worker runs as root, and creates mounts of
// the trees. It chooses nobody, with mounts that show the files of the directories' owners as
// nobody's. If the file system does not support that, it chooses the owner, unless that is
// root. The caller closes the mounts, even after an error.
func (s *Sandbox) chooseUser(trees []tree) (who owner, mounts []*os.File, err error) {
	who = owner{nobodyID, nobodyID}
	dir := "" // the command's directory, once it is mapped
	for i := range trees {
		t := &trees[i]
		var mount *os.File
		if t.Writable {
			who, mount, err = s.mapOwner(t, who, dir)
			dir = cmp.Or(dir, t.At)
		} else {
			mount, err = t.mount()
		}
		if err != nil {
			return who, mounts, fmt.Errorf("taking %s: %w", t.At, err)
		}
		t.File = fileTrees + len(mounts)
		mounts = append(mounts, mount)
	}
	return who, mounts, nil
}

// mapOwner creates a mount of a tree that the command may write to, and returns the user of the
// command. That changes to the directory's owner if the directory could not be mapped.
func (s *Sandbox) mapOwner(t *tree, who owner, dir string) (owner, *os.File, error) {
	users, err := s.owners.namespace(t.of)
	if err != nil {
		return who, nil, err
	}
	mount, err := t.mount()
	if err != nil {
		return who, nil, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	err = unix.MountSetattr(int(mount.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	switch {
	case err == nil && (dir == "" || who.uid == nobodyID):
		return who, mount, nil
	case err == nil:
		err = fmt.Errorf("its owner can be shown as another user, and that of %s can't", dir)
	case errors.Is(err, unix.EINVAL) && t.of.uid != 0 && (dir == "" || who == t.of):
		return t.of, mount, nil
	default:
		err = fmt.Errorf("it belongs to user %d, and is for a command that is not root's: showing it as another's: %w", t.of.uid, err)
	}
	return who, nil, errors.Join(err, mount.Close())
}
