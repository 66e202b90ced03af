package tool

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/coppice-run/coppice/internal/redact"
)

// outputFile returns the name of the file for a command's output.
func outputFile(label string) string { return path.Join(OutputDir, label+outputExt) }

// createOutput creates a file for a command's output and replaces an existing one. It removes the
// name first, so that a link that a command has put there is not followed.
func (w *Workspace) createOutput(name string) (io.WriteCloser, error) {
	if err := w.makeOutputDir(); err != nil {
		return nil, pathError(OutputDir, err)
	}
	if err := w.evictOutput(maxCommandOutput); err != nil {
		return nil, pathError(OutputDir, err)
	}
	if err := w.root.Remove(filepath.FromSlash(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, pathError(name, err)
	}
	file, err := MakeFile(w.root, filepath.FromSlash(name), outputFileMode)
	if err != nil {
		return nil, pathError(name, err)
	}
	// Without locks, as in some network file systems, the command runs all the same.
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return file, nil
}

// isBeingWritten reports whether a command that still runs has the file open, in any process:
// createOutput locks the file until it is closed.
func (w *Workspace) isBeingWritten(name string) bool {
	file, err := w.open(name)
	if err != nil {
		return false
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(errors.Join(err, file.Close()), syscall.EWOULDBLOCK)
}

// redactingWriter removes secrets from the output of a command before any of it is kept, so that
// no bound cuts a secret in two. It is safe for concurrent use.
type redactingWriter struct {
	to *capture

	mu      sync.Mutex
	secrets *redact.Redactor
	stream  *redact.Stream
	clean   []byte // reused buffer of the last write
}

// Write never fails, because capture does not.
func (c *redactingWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secrets.None() {
		return c.to.Write(p)
	}
	c.clean = append(c.clean[:0], c.stream.Write(string(p))...)
	if _, err := c.to.Write(c.clean); err != nil {
		return 0, err
	}
	return len(p), nil
}

// close writes what was held back. Nothing is printed after that.
func (c *redactingWriter) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.to.Write([]byte(c.stream.Flush()))
	c.to.close()
	return err
}
