package sandbox

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Capture keeps the head and the tail of what is written to it and counts the rest.
// Its memory is bounded by what it keeps, however much is written. It is safe for use
// by several goroutines, so both outputs of a command may go into one.
type Capture struct {
	mu        sync.Mutex
	headBytes int
	head      []byte
	ring      []byte // the tail, once the head is full
	next      int    // where the ring goes on
	after     int64  // bytes after the head
	spool     io.Writer
	spoolLeft int64
	spoolCut  bool // more came than the spool may hold
	spoolErr  error
}

// The bounds of what is usually kept.
const (
	DefaultHeadBytes  = 16 << 10
	DefaultTailBytes  = 16 << 10
	DefaultSpoolBytes = 64 << 20
)

// CaptureConfig says what a Capture keeps; 0 stands for the default.
type CaptureConfig struct {
	HeadBytes int
	TailBytes int
	// Spool gets everything up to SpoolBytes, for instance a file; nil: it is not kept.
	Spool      io.Writer
	SpoolBytes int64
}

// NewCapture makes a Capture.
func NewCapture(c CaptureConfig) *Capture {
	if c.HeadBytes <= 0 {
		c.HeadBytes = DefaultHeadBytes
	}
	if c.TailBytes <= 0 {
		c.TailBytes = DefaultTailBytes
	}
	if c.SpoolBytes <= 0 {
		c.SpoolBytes = DefaultSpoolBytes
	}
	return &Capture{
		headBytes: c.HeadBytes, ring: make([]byte, c.TailBytes),
		spool: c.Spool, spoolLeft: c.SpoolBytes,
	}
}

// Write never fails: a command has not to end because of what is kept of its output.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(p)
	rest := p
	if free := c.headBytes - len(c.head); free > 0 {
		n := min(free, len(rest))
		c.head = append(c.head, rest[:n]...)
		rest = rest[n:]
	}
	c.after += int64(len(rest))
	if over := len(rest) - len(c.ring); over > 0 {
		rest = rest[over:]
	}
	for len(rest) > 0 {
		n := copy(c.ring[c.next:], rest)
		rest, c.next = rest[n:], (c.next+n)%len(c.ring)
	}
	return len(p), nil
}

func (c *Capture) keep(p []byte) {
	if c.spool == nil || c.spoolErr != nil {
		return
	}
	c.spoolCut = c.spoolCut || int64(len(p)) > c.spoolLeft
	p = p[:min(int64(len(p)), c.spoolLeft)]
	n, err := c.spool.Write(p)
	c.spoolLeft -= int64(n)
	if err != nil {
		c.spoolErr = fmt.Errorf("keeping all of an output: %w", err)
	}
}

// Text gives what is kept, as valid UTF-8, and how many bytes between head and tail
// were cut. If none were, all is in the head.
func (c *Capture) Text() (head, tail string, cut int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut = max(0, c.after-int64(len(c.ring)))
	end := string(c.ring[:c.next])
	if c.after >= int64(len(c.ring)) {
		end = string(c.ring[c.next:]) + end
	}
	if cut == 0 {
		return valid(string(c.head) + end), "", 0
	}
	return valid(string(c.head)), valid(end), cut
}

// Total is how many bytes were written.
func (c *Capture) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.head)) + c.after
}

// Spooled says whether everything that was written is in the spool, and what kept it
// from being there.
func (c *Capture) Spooled() (whole bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spool != nil && c.spoolErr == nil && !c.spoolCut, c.spoolErr
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
