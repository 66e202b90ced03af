package store

import (
	"errors"
	"os"
	"syscall"
)

// syncData makes the data of a file durable. Of what the system knows about the file it stores only
// what reading the data takes.
func syncData(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
