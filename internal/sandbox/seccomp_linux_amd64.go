package sandbox

import "golang.org/x/sys/unix"

const (
	arch = unix.AUDIT_ARCH_X86_64
	// otherABI is where the numbers of x32 begin: the same calls once more.
	otherABI = 0x40000000
)

var deniedHere = []uint32{
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT,
	unix.SYS_QUERY_MODULE, unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_USELIB, unix.SYS_USTAT,
}

var settersHere = []modeSetter{{unix.SYS_OPEN, 2, true}, {unix.SYS_CREAT, 1, false}, {unix.SYS_CHMOD, 1, false}, {unix.SYS_MKNOD, 1, false}}
