//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedSyscalls change the machine or its view, access other processes, or have a history of
// vulnerabilities. Those of a single architecture are in a separate file.
var deniedSyscalls = []uint32{
	// Mounts and namespaces.
	unix.SYS_CHROOT, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_MOUNT,
	unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_PIVOT_ROOT, unix.SYS_SETNS,
	unix.SYS_UMOUNT2, unix.SYS_UNSHARE,
	// File access other than by path.
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// Other processes.
	unix.SYS_KCMP, unix.SYS_MOVE_PAGES, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_VM_READV,
	unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PTRACE,
	// The kernel itself.
	unix.SYS_ACCT, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_INIT_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_REBOOT, unix.SYS_SETDOMAINNAME, unix.SYS_SETHOSTNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF,
	unix.SYS_SWAPON, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	// Keys, and calls with a history of vulnerabilities. io_uring performs operations that a
	// filter does not see.
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_IO_URING_SETUP,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
}

// namespaceFlags are the flags of clone that create namespaces. CLONE_NEWTIME shares its bit
// with the signal number and cannot be set there.
const namespaceFlags = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS |
	unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS

// modeSetter is a system call with a file mode as an argument.
type modeSetter struct {
	number, mode uint32
	// opens: the argument before it has flags; without createFlags the mode is ignored.
	opens bool
}

// modeSetters could create a setuid or setgid program. mkdir is not among them: the kernel
// ignores these bits there.
var modeSetters = []modeSetter{
	{unix.SYS_OPENAT, 3, true}, {unix.SYS_FCHMOD, 1, false}, {unix.SYS_FCHMODAT, 2, false}, {unix.SYS_FCHMODAT2, 2, false},
	{unix.SYS_MKNODAT, 2, false},
}

// createFlags are the open flags that create a file.
const createFlags = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// Offsets of the data that a filter reads. Of an argument it reads the lower half, on
// little-endian machines; the filtered calls use no more of it.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func offsetArg(n uint32) uint32 { return offsetArgs + 8*n }

type program []unix.SockFilter

func (p *program) load(offset uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

// unless skips the next length instructions if the comparison holds.
func (p *program) unless(comparison uint16, value uint32, length uint8) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, Jt: length, K: value})
}

// when skips the next length instructions if the comparison does not hold.
func (p *program) when(comparison uint16, value uint32, length uint8) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, Jf: length, K: value})
}

func (p *program) end(result uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: result})
}

const (
	allow  = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	kill   = unix.SECCOMP_RET_KILL_PROCESS
)

// families returns the allowed socket families.
func (o filterOptions) families() (families []uint32) {
	if o.localSockets {
		families = append(families, unix.AF_UNIX)
	}
	if o.network {
		families = append(families, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	}
	return families
}

// filter builds the program.
func filter(o filterOptions) program {
	var p program
	p.load(offsetArch)
	p.unless(unix.BPF_JEQ, arch, 1)
	p.end(kill)
	p.load(offsetNumber)
	p.when(unix.BPF_JGE, otherABI, 1)
	p.end(kill)
	// Opening files is the most frequent call, so it comes first.
	for _, c := range append(modeSetters, settersHere...) {
		p.argument(c.number, c.mode, func(a *program) { c.refuse(a, o.modes) })
	}
	for _, number := range append(deniedSyscalls, deniedHere...) {
		p.when(unix.BPF_JEQ, number, 1)
		p.end(refuse)
	}
	// Their flags are in memory, which a filter cannot read. Libraries fall back to clone and
	// openat.
	for _, number := range []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2} {
		p.when(unix.BPF_JEQ, number, 1)
		p.end(absent)
	}
	p.argument(unix.SYS_CLONE, 0, func(a *program) {
		a.when(unix.BPF_JSET, namespaceFlags, 1)
		a.end(refuse)
		a.end(allow)
	})
	// Input injected into a terminal is read by the owner of the terminal.
	p.argument(unix.SYS_IOCTL, 1, func(a *program) {
		for _, request := range []uint32{unix.TIOCSTI, unix.TIOCLINUX} {
			a.when(unix.BPF_JEQ, request, 1)
			a.end(refuse)
		}
		a.end(allow)
	})
	p.argument(unix.SYS_SOCKET, 0, func(a *program) { a.permit(o.families()) })
	p.argument(unix.SYS_SOCKETPAIR, 1, func(a *program) {
		// A pair of datagram sockets can be connected to a path, others can't.
		if !o.localSockets {
			a.when(unix.BPF_JSET, datagramTypes, 1)
			a.end(refuse)
		}
		a.load(offsetArg(0))
		a.permit([]uint32{unix.AF_UNIX})
	})
	if !o.otherLimits {
		p.argument(unix.SYS_PRLIMIT64, 0, func(a *program) { a.permit([]uint32{0}) })
	}
	p.end(allow)
	return p
}

// datagramTypes is a bit of the types of sockets that take datagrams: SOCK_DGRAM and SOCK_RAW. The
// bit is not set in SOCK_STREAM and SOCK_SEQPACKET.
const datagramTypes = unix.SOCK_DGRAM

// permit permits only some values of what has been loaded.
func (p *program) permit(values []uint32) {
	for _, value := range values {
		p.when(unix.BPF_JEQ, value, 1)
		p.end(allow)
	}
	p.end(refuse)
}

// refuse is emitted when the mode has been loaded.
func (c modeSetter) refuse(p *program, bits uint32) {
	p.unless(unix.BPF_JSET, bits, 1)
	p.end(allow)
	if c.opens {
		p.load(offsetArg(c.mode - 1))
		p.unless(unix.BPF_JSET, createFlags, 1)
		p.end(allow)
	}
	p.end(refuse)
}

// argument emits instructions for a call that depend on one of its arguments. They must end
// with a result.
func (p *program) argument(number, which uint32, body func(*program)) {
	var a program
	a.load(offsetArg(which))
	body(&a)
	p.when(unix.BPF_JEQ, number, uint8(len(a)))
	*p = append(*p, a...)
}

// setFilter installs the filter for this thread and its later programs.
func setFilter(o filterOptions) error {
	p := filter(o)
	program := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("loading the filter: %w", errno)
	}
	return nil
}
