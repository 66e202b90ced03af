package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockRetry is the interval between attempts to take a lock.
const lockRetry = 20 * time.Millisecond

// lock takes a file lock, which excludes processes and machines that share the file system. It
// waits until ctx ends, because the holder may be checking out many worktrees. Closing the file
// releases the lock, and so does the end of the process.
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

// flock takes or changes a lock without waiting. It returns EWOULDBLOCK if another process
// prevents that.
func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// isShared reports whether others hold the shared lock of a file. The caller must hold the
// repository lock, so that no one joins or calls this concurrently.
func isShared(file *os.File) (bool, error) {
	err := flock(file, syscall.LOCK_EX)
	if again := flock(file, syscall.LOCK_SH); again != nil { // after a failed change the lock may be lost
		return true, fmt.Errorf("sharing the lock %s: %w", file.Name(), again)
	}
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return true, fmt.Errorf("taking the lock %s: %w", file.Name(), err)
	}
	return err != nil, nil
}
