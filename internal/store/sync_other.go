//go:build !linux

package store

import (
	"os"
	"syscall"
)

// syncData hands the data of a file to its disk, as SQLite does. On macOS that does not wait until the
// disk has stored it.
func syncData(file *os.File) error { return syscall.Fsync(int(file.Fd())) }
