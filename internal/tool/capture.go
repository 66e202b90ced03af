package tool

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// maxKept bounds the file that keeps the whole output of a command, in bytes.
const maxCommandOutput = 32 << 20

// capture takes what a command prints, however much that is: it holds the beginning
// and the end, and keeps all of it in a file once that is more than it holds. It is
// safe for use by many goroutines at once. Writing to it never fails: a command does
// not end because its output can't be kept.
type capture struct {
	half int                            // how much of the beginning, and of the end, is held
	name string                         // of the file, as the model is told
	open func() (io.WriteCloser, error) // makes the file; nil: there is none

	mu     sync.Mutex
	head   []byte
	tail   []byte // at least the last half bytes after the head
	size   int64  // of all that was printed
	file   io.WriteCloser
	kept   int64 // how much of it is in the file
	failed error // why the rest is not
	closed bool
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size+int64(len(p)) > int64(2*c.half) {
		c.startFile()
	}
	c.spool(p)
	c.size += int64(len(p))
	rest := p[min(len(p), c.half-len(c.head)):]
	c.head = append(c.head, p[:len(p)-len(rest)]...)
	rest = rest[max(0, len(rest)-c.half):]
	if all := len(c.tail) + len(rest); all > 2*c.half {
		c.tail = append(c.tail[:0], c.tail[all-c.half:]...)
	}
	c.tail = append(c.tail, rest...)
	return len(p), nil
}

// keep makes the file, with what was printed so far, if there is none yet. The lock
// is held, and nothing was left out so far.
func (c *capture) startFile() {
	if c.file != nil || c.failed != nil || c.open == nil {
		return
	}
	if c.file, c.failed = c.open(); c.failed != nil {
		return
	}
	c.spool(c.head)
	c.spool(c.tail)
	if c.closed {
		c.failed = errors.Join(c.failed, c.file.Close())
	}
}

// spool adds to the file, if there is one, as much as may be kept. The lock is held.
func (c *capture) spool(p []byte) {
	if c.file == nil || c.failed != nil {
		return
	}
	n, err := c.file.Write(p[:min(int64(len(p)), maxCommandOutput-c.kept)])
	if c.kept += int64(n); err != nil {
		c.failed = err
	} else if n < len(p) {
		c.failed = fmt.Errorf("only the first %d bytes are kept", maxCommandOutput)
	}
}

// keepAll keeps everything in the file from now on, however little it is.
func (c *capture) keepInFile() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startFile()
}

// close ends the file: nothing is printed any more.
func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.file != nil {
		c.failed = errors.Join(c.failed, c.file.Close())
	}
}

// printed is how much was printed, in bytes.
func (c *capture) bytesPrinted() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// text gives what was printed, made fit to be shown, within the bound: the beginning
// and the end if it is more than that.
func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := 2 * c.half
	if c.size <= int64(limit) {
		whole := validText(append(append([]byte{}, c.head...), c.tail...))
		if len(whole) <= limit {
			return whole
		}
		c.startFile()
	}
	head := excerpt.Head(validText(c.head), c.half)
	tail := excerpt.Tail(validText(c.tail[max(0, len(c.tail)-c.half):]), c.half)
	return fmt.Sprintf("%s\n[cut: %d bytes were printed, these are the first and the last; %s]\n%s", head, c.size, c.location(), tail)
}

// end gives the end of what was printed so far, made fit to be shown.
func (c *capture) tailText(limit int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.tail
	if len(last) < limit {
		last = append(append([]byte{}, c.head...), last...)
	}
	if c.size > int64(2*c.half) && len(c.tail) < limit {
		last = c.tail // what lies between the head and the tail is not there
	}
	shown := excerpt.Tail(validText(last), limit)
	if c.size <= int64(limit) && len(shown) == len(last) {
		return shown
	}
	return fmt.Sprintf("[cut: %d bytes were printed, these are the last; %s]\n%s", c.size, c.location(), shown)
}

// where says where the whole output is. The lock is held.
func (c *capture) location() string {
	switch {
	case c.file == nil:
		return "the rest could not be kept"
	case c.failed != nil:
		return fmt.Sprintf("more is in %s, but not all: %v", c.name, c.failed)
	}
	return "the whole is in " + c.name
}
