package sandbox

import (
	"context"
	"fmt"
	"maps"
	"net"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// probeMarker is the first argument of the test binary when it makes calls of the
// kernel that no shell makes.
const probeMarker = "coppice-sandbox-probe"

// nowhere is an address that nothing is mapped at, and none a descriptor that nothing
// has: a call with them has no effect and still tells whether it was let through.
const (
	nowhere = uintptr(1)
	none    = ^uintptr(0)
)

// runProbe says ESCAPED if the kernel does, or would do, what it is asked.
func runProbe(what string, args []string) int {
	err := probe(what, args)
	switch err {
	case nil:
		fmt.Println(what, "worked: ESCAPED")
		return 0
	default:
		fmt.Println(what, err)
		return 1
	}
}

func probe(what string, args []string) error {
	runtime.LockOSThread()
	number := func(i int) int {
		n, err := strconv.ParseInt(args[i], 0, 64)
		if err != nil {
			panic(err)
		}
		return int(n)
	}
	switch what {
	case "call":
		return call(args[0])
	case "socket":
		_, err := unix.Socket(number(0), number(1), number(2))
		return err
	case "dial":
		d := net.Dialer{}
		d.SetMultipathTCP(len(args) > 2)
		conn, err := d.Dial(args[0], args[1])
		if err == nil {
			_, err = conn.Write([]byte("hello"))
		}
		return err
	case "listen":
		lc := net.ListenConfig{}
		_, err := lc.Listen(context.Background(), args[0], args[1])
		return err
	case "ptrace":
		if err := syscall.PtraceAttach(number(0)); err != nil {
			return err
		}
		if _, err := syscall.Wait4(number(0), nil, 0, nil); err != nil {
			return err
		}
		return syscall.PtraceDetach(number(0))
	case "readv":
		buf := make([]byte, 1)
		local := []unix.Iovec{{Base: &buf[0], Len: 1}}
		_, err := unix.ProcessVMReadv(number(0), local, []unix.RemoteIovec{{Base: 0, Len: 1}}, 0)
		if err == unix.EFAULT { // it may, but there is nothing at 0
			return nil
		}
		return err
	case "getfd":
		pidfd, err := unix.PidfdOpen(number(0), 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(pidfd, 0, 0)
		return err
	case "signal":
		return syscall.Kill(number(0), 0)
	case "setid":
		return syscall.Setresuid(number(0), number(0), number(0))
	case "setgid":
		return syscall.Setresgid(number(0), number(0), number(0))
	case "setgroups":
		return syscall.Setgroups([]int{number(0)})
	case "capability":
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := [2]unix.CapUserData{{Effective: 1 << uint(number(0)), Permitted: 1 << uint(number(0))}}
		return unix.Capset(&header, &data[0])
	case "rlimit":
		return unix.Prlimit(number(0), number(1), &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
	case "shared":
		return findShared(args[0])
	}
	return fmt.Errorf("there is no probe %s", strings.Join(append([]string{what}, args...), " "))
}

// findShared looks for a segment of memory that the worker has made for everybody.
func findShared(key string) error {
	n, err := strconv.ParseInt(key, 0, 64)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmGet(int(n), 0, 0)
	return err
}

// call makes a call with arguments that have no effect. What the kernel says about
// them shows that the call was let through; that it is refused, or not known, shows
// that it was not.
func call(name string) error {
	c, ok := allCalls()[name]
	if !ok {
		return fmt.Errorf("there is no call %s", name)
	}
	_, _, errno := unix.Syscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
	if errno == unix.EPERM || errno == unix.ENOSYS {
		return errno
	}
	fmt.Println("the kernel says:", errno)
	return nil
}

type kernelCall struct {
	number uintptr
	args   [6]uintptr
}

func with(number uintptr, args ...uintptr) kernelCall {
	c := kernelCall{number: number}
	copy(c.args[:], args)
	return c
}

func allCalls() map[string]kernelCall {
	all := maps.Clone(calls)
	maps.Copy(all, callsHere)
	return all
}

// calls are those of the filter, by name, with harmless arguments.
var calls = map[string]kernelCall{
	"acct":               with(unix.SYS_ACCT, nowhere),
	"add_key":            with(unix.SYS_ADD_KEY, nowhere, nowhere, 0, 0, 0),
	"adjtimex":           with(unix.SYS_ADJTIMEX, nowhere),
	"bpf":                with(unix.SYS_BPF, 0, nowhere, 16),
	"chroot":             with(unix.SYS_CHROOT, nowhere),
	"clock_adjtime":      with(unix.SYS_CLOCK_ADJTIME, 0, nowhere),
	"clock_settime":      with(unix.SYS_CLOCK_SETTIME, 0, nowhere),
	"clone_newuser":      with(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS),
	"clone_newnet":       with(unix.SYS_CLONE, unix.CLONE_NEWNET|unix.CLONE_SIGHAND),
	"clone_newns":        with(unix.SYS_CLONE, unix.CLONE_NEWNS|unix.CLONE_FS),
	"clone_newpid":       with(unix.SYS_CLONE, unix.CLONE_NEWPID|unix.CLONE_SIGHAND),
	"clone3":             with(unix.SYS_CLONE3, nowhere, 8),
	"delete_module":      with(unix.SYS_DELETE_MODULE, nowhere, 0),
	"fanotify_init":      with(unix.SYS_FANOTIFY_INIT, none, 0),
	"finit_module":       with(unix.SYS_FINIT_MODULE, none, nowhere, 0),
	"fsconfig":           with(unix.SYS_FSCONFIG, none, 0, nowhere, 0, 0),
	"fsmount":            with(unix.SYS_FSMOUNT, none, 0, 0),
	"fsopen":             with(unix.SYS_FSOPEN, nowhere, 0),
	"fchmod_setuid":      with(unix.SYS_FCHMOD, none, 0o4755),
	"fchmod_setgid":      with(unix.SYS_FCHMOD, none, 0o2755),
	"fchmod_wide":        with(unix.SYS_FCHMOD, none, 0o4755|1<<32),
	"fchmodat_setuid":    with(unix.SYS_FCHMODAT, none, nowhere, 0o4755),
	"fchmodat2_setuid":   with(unix.SYS_FCHMODAT2, none, nowhere, 0o4755, 0),
	"fspick":             with(unix.SYS_FSPICK, none, nowhere, 0),
	"init_module":        with(unix.SYS_INIT_MODULE, nowhere, 8, nowhere),
	"io_uring_enter":     with(unix.SYS_IO_URING_ENTER, none, 0, 0, 0),
	"io_uring_register":  with(unix.SYS_IO_URING_REGISTER, none, 0, 0, 0),
	"io_uring_setup":     with(unix.SYS_IO_URING_SETUP, 1, nowhere),
	"ioctl_tiocsti":      with(unix.SYS_IOCTL, none, unix.TIOCSTI, nowhere),
	"ioctl_tiocsti_wide": with(unix.SYS_IOCTL, none, unix.TIOCSTI|1<<32, nowhere),
	"ioctl_tioclinux":    with(unix.SYS_IOCTL, none, unix.TIOCLINUX, nowhere),
	"kcmp":               with(unix.SYS_KCMP, 1<<30, 1<<30, 0, 0, 0),
	"kexec_file_load":    with(unix.SYS_KEXEC_FILE_LOAD, none, none, 0, 0, none),
	"kexec_load":         with(unix.SYS_KEXEC_LOAD, 0, 0, nowhere, none),
	"keyctl":             with(unix.SYS_KEYCTL, none),
	"mknodat_setuid":     with(unix.SYS_MKNODAT, none, nowhere, unix.S_IFREG|0o4755, 0),
	"mount":              with(unix.SYS_MOUNT, nowhere, nowhere, nowhere, 0, 0),
	"mount_setattr":      with(unix.SYS_MOUNT_SETATTR, none, nowhere, 0, nowhere, 32),
	"move_mount":         with(unix.SYS_MOVE_MOUNT, none, nowhere, none, nowhere, 0),
	"move_pages":         with(unix.SYS_MOVE_PAGES, 1<<30, 1, nowhere, 0, 0, 0),
	"name_to_handle_at":  with(unix.SYS_NAME_TO_HANDLE_AT, none, nowhere, nowhere, nowhere, 0),
	"open_by_handle_at":  with(unix.SYS_OPEN_BY_HANDLE_AT, none, nowhere, 0),
	"open_tree":          with(unix.SYS_OPEN_TREE, none, nowhere, 0),
	"openat2":            with(unix.SYS_OPENAT2, none, nowhere, nowhere, 24),
	"openat_setuid":      with(unix.SYS_OPENAT, none, nowhere, unix.O_CREAT, 0o4755),
	"openat_unnamed":     with(unix.SYS_OPENAT, none, nowhere, unix.O_TMPFILE|unix.O_RDWR, 0o2755),
	"perf_event_open":    with(unix.SYS_PERF_EVENT_OPEN, nowhere, 0, 0, none, 0),
	"pidfd_getfd":        with(unix.SYS_PIDFD_GETFD, none, 0, 0),
	"pivot_root":         with(unix.SYS_PIVOT_ROOT, nowhere, nowhere),
	"process_madvise":    with(unix.SYS_PROCESS_MADVISE, none, nowhere, 1, 0, 0),
	"process_vm_readv":   with(unix.SYS_PROCESS_VM_READV, 1<<30, 0, 0, 0, 0, 1),
	"process_vm_writev":  with(unix.SYS_PROCESS_VM_WRITEV, 1<<30, 0, 0, 0, 0, 1),
	"ptrace":             with(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1<<30, 0, 0),
	"quotactl":           with(unix.SYS_QUOTACTL, none, nowhere, 0, 0),
	"quotactl_fd":        with(unix.SYS_QUOTACTL_FD, none, 0, 0, 0),
	"reboot":             with(unix.SYS_REBOOT, 0, 0, 0, 0),
	"request_key":        with(unix.SYS_REQUEST_KEY, nowhere, nowhere, 0, 0),
	"setdomainname":      with(unix.SYS_SETDOMAINNAME, nowhere, 1<<20),
	"sethostname":        with(unix.SYS_SETHOSTNAME, nowhere, 1<<20),
	"setns":              with(unix.SYS_SETNS, none, 0),
	"settimeofday":       with(unix.SYS_SETTIMEOFDAY, nowhere, 0),
	"swapoff":            with(unix.SYS_SWAPOFF, nowhere),
	"swapon":             with(unix.SYS_SWAPON, nowhere, 0),
	"syslog":             with(unix.SYS_SYSLOG, none, 0, 0),
	"umount2":            with(unix.SYS_UMOUNT2, nowhere, 0),
	"unshare_newuser":    with(unix.SYS_UNSHARE, unix.CLONE_NEWUSER|1<<3),
	"unshare_newnet":     with(unix.SYS_UNSHARE, unix.CLONE_NEWNET|1<<3),
	"unshare_nothing":    with(unix.SYS_UNSHARE, 0),
	"userfaultfd":        with(unix.SYS_USERFAULTFD, 1<<31),
}
