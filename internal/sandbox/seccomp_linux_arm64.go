package sandbox

import "golang.org/x/sys/unix"

const (
	arch = unix.AUDIT_ARCH_AARCH64
	// otherABI is above all numbers: there is none.
	otherABI = 0x40000000
)

var deniedHere []uint32

var settersHere []modeSetter
