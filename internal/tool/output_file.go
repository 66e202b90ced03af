package tool

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"sync"

	"github.com/coppice-run/coppice/internal/redact"
)

// outputFile is the name of the file for a command's output.
func outputFile(label string) string { return path.Join(OutputDir, label+outputExt) }

// createOutput makes a file for a command's output, in the place of one of the same
// name. Whatever a command has put there
// leads it nowhere else.
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
	return file, nil
}

// cleaner takes the secrets out of what a command prints before any of it is kept, so
// that no bound cuts one in two. It is safe for use by many goroutines at once.
type redactingWriter struct {
	to *capture

	mu      sync.Mutex
	secrets *redact.Redactor
	stream  *redact.Stream
	clean   []byte // of the last write
}

// Write never fails, as capture does not.
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

// close gives on what was held back: nothing is printed any more.
func (c *redactingWriter) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.to.Write([]byte(c.stream.Flush()))
	c.to.close()
	return err
}
