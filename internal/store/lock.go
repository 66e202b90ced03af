package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// resolveFile follows links to the database file, and creates it if it does not exist. The lock
// file is next to the file itself, so it is the same under every name. A new file is readable only
// by its owner; SQLite gives the files next to it the same mode.
func resolveFile(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = makeFile(name)
	case err == nil && info.IsDir():
		err = errors.New("it is a directory")
	}
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(name)
}

func makeFile(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		return file.Close()
	}
	dir := filepath.Dir(name)
	if _, missing := os.Stat(dir); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s: %w", dir, err)
	}
	return err
}

// checkWritable returns an error if the file of a database, or one that SQLite has made beside it,
// cannot be written. SQLite would make the others with the rights of the database, also those that
// it lacks, and would not say which of them it cannot write.
func checkWritable(file string) error {
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		opened, err := os.OpenFile(name, os.O_RDWR, 0)
		switch {
		case err == nil:
			err = opened.Close()
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fileLock keeps other processes from a database. The kernel releases it when the process ends,
// however it ends.
type fileLock struct{ file *os.File }

// lockFile takes the lock, or fails and says who holds it.
func lockFile(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, readErr := io.ReadAll(io.LimitReader(file, 1024))
		closeErr := file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("it is in use by %s: end that process first, or use another directory or database", strings.TrimSpace(string(holder))), readErr, closeErr)
		}
		return nil, errors.Join(fmt.Errorf("locking: %w", err), closeErr)
	}
	l := &fileLock{file}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lock: %w", err), l.release())
	}
	return l, nil
}

// sign writes into the lock file who holds the lock.
func (l *fileLock) sign() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(fmt.Appendf(nil, "process %d on %s since %s\n",
		os.Getpid(), host, time.Now().UTC().Format(time.RFC3339)), 0)
	return err
}

// release unlocks before it closes the file: a child process that is being started has the file
// open too, until it executes its program.
func (l *fileLock) release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
