package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Bounds of waiting for the lock: it is held as long as git takes to lay out the files
// of a worktree.
const (
	lockPatience = 2 * time.Minute
	lockEvery    = 20 * time.Millisecond
)

// lock takes the lock that a file stands for, among processes and machines that share
// the file system. A process that dies lets go of it.
func lock(ctx context.Context, root *os.Root, name string) (unlock func() error, err error) {
	file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("taking the lock: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			break
		}
		select {
		case <-time.After(lockEvery):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("somebody else has the lock %s: %w", name, ctx.Err()), file.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking the lock %s: %w", name, err), file.Close())
	}
	return file.Close, nil
}
