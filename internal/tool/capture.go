package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// maxCommandOutput bounds the file with the whole output of a command, in bytes.
const maxCommandOutput = 32 << 20

// capture collects the output of a command, however large it is. It holds the beginning and the
// end in memory, and writes everything to a file once there is more. It is safe for concurrent
// use. Write never fails: a command must not end because its output cannot be kept.
type capture struct {
	half int                            // how much of the beginning and of the end is held, in bytes
	name string                         // of the file, for the model
	open func() (io.WriteCloser, error) // creates the file; nil: there is none

	mu     sync.Mutex
	head   []byte
	tail   []byte // at least the last half bytes after head
	size   int64  // of the whole output
	file   io.WriteCloser
	kept   int64 // bytes in the file
	failed error // why the rest is not in the file
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

// startFile creates the file with the output so far, unless there is one. The caller holds mu, and
// nothing has been discarded yet.
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

// spool appends to the file, if there is one, up to its bound. The caller holds mu. NUL bytes are
// replaced as in the result: with one of them the file would count as binary, which no tool reads.
func (c *capture) spool(p []byte) {
	if c.file == nil || c.failed != nil {
		return
	}
	if bytes.IndexByte(p, 0) >= 0 {
		p = bytes.ReplaceAll(p, []byte{0}, []byte(string(utf8.RuneError)))
	}
	n, err := c.file.Write(p[:min(int64(len(p)), maxCommandOutput-c.kept)])
	if c.kept += int64(n); err != nil {
		c.failed = err
	} else if n < len(p) {
		c.failed = fmt.Errorf("only the first %d bytes are kept", maxCommandOutput)
	}
}

// keepInFile writes everything to the file from now on, even if it is small.
func (c *capture) keepInFile() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startFile()
}

// close closes the file. Nothing is printed after that.
func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.file != nil {
		c.failed = errors.Join(c.failed, c.file.Close())
	}
}

// bytesPrinted returns the size of the output so far.
func (c *capture) bytesPrinted() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// text returns the output, fit to be shown. If it is too large, it returns the beginning and the
// end.
func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := 2 * c.half
	if c.size <= int64(limit) {
		whole := excerpt.Valid(string(c.head) + string(c.tail))
		if len(whole) <= limit {
			return whole
		}
		c.startFile()
	}
	head := excerpt.Head(excerpt.Valid(string(c.head[:len(c.head)-excerpt.Unfinished(c.head)])), c.half)
	tail := excerpt.Tail(excerpt.Valid(excerpt.Tail(string(c.tail), c.half)), c.half)
	return fmt.Sprintf("%s\n[cut: %d bytes were printed, these are the first and the last; %s]\n%s", head, c.size, c.location(), tail)
}

// tailText returns the end of the output so far, fit to be shown.
func (c *capture) tailText(limit int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.tail
	if len(last) < limit {
		last = append(append([]byte{}, c.head...), last...)
	}
	if c.size > int64(2*c.half) && len(c.tail) < limit {
		last = c.tail // what is between head and tail was discarded
	}
	valid := excerpt.Valid(string(last))
	shown := excerpt.Tail(valid, limit)
	if c.size <= int64(limit) && len(shown) == len(valid) {
		return shown
	}
	return fmt.Sprintf("[cut: %d bytes were printed, these are the last; %s]\n%s", c.size, c.location(), shown)
}

// location says where the whole output is. The caller holds mu.
func (c *capture) location() string {
	switch {
	case c.file == nil:
		return "the rest could not be kept"
	case c.failed != nil:
		return fmt.Sprintf("more is in %s, but not all: %v", c.name, c.failed)
	}
	return "the whole is in " + c.name
}
