package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockRetry is how often a lock that somebody has is asked for.
const lockRetry = 20 * time.Millisecond

// lock takes the lock that a file stands for, among processes and machines that share
// the file system. It waits as long as ctx lives: whoever has it may be laying out the
// files of many worktrees. Closing the file lets go of it, and so does the end of the
// process.
func lock(ctx context.Context, file *os.File) error {
	for {
		err := flock(file, syscall.LOCK_EX)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("taking the lock %s: %w", file.Name(), err)
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return fmt.Errorf("somebody else has the lock %s: %w", file.Name(), ctx.Err())
		}
	}
}

// flock takes or changes a lock without waiting; it is EWOULDBLOCK if others are in the
// way.
func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// used reports whether others share the lock that a file holds. The repository is locked:
// nobody else comes, or asks the same.
func isShared(file *os.File) (bool, error) {
	err := flock(file, syscall.LOCK_EX)
	if again := flock(file, syscall.LOCK_SH); again != nil { // what could not be changed may be lost
		return true, fmt.Errorf("sharing the lock %s: %w", file.Name(), again)
	}
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return true, fmt.Errorf("taking the lock %s: %w", file.Name(), err)
	}
	return err != nil, nil
}
