package rawconn

import (
	"os"
	"syscall"
	"unsafe"
)

// SetTCPOption sets an option of a TCP socket that is a number.
func SetTCPOption(c syscall.RawConn, option, value int) error {
	number, errno := int32(value), syscall.Errno(0)
	err := c.Control(func(fd uintptr) {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_SETSOCKOPT, fd, syscall.IPPROTO_TCP, uintptr(option), uintptr(unsafe.Pointer(&number)), unsafe.Sizeof(number), 0)
	})
	if errno != 0 {
		return os.NewSyscallError("setsockopt", errno)
	}
	return err // it is closed
}
