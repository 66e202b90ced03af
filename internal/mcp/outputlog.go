package mcp

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Bounds of what a process writes to the log.
const (
	maxLineBytes      = 500 // bytes per line
	chatterKept       = 8 << 10
	maxLinesPerWindow = 50 // in each window
	logWindow         = 10 * time.Second
	lastLinesBytes    = 1000 // bytes of the last lines
)

// outputLog logs the output of a process outside of the protocol, line by line, with bounds on
// length and number.
type outputLog struct {
	log      *slog.Logger
	scrubber scrubber

	mu      sync.Mutex
	streams []*stream
	window  time.Time // start of the window
	lines   int       // lines in this window
	dropped int
	last    []string // last lines of its standard error
	size    int      // their size
}

// stderr is the name of a process's standard error.
const stderr = "stderr"

func newOutputLog(log *slog.Logger, s scrubber) *outputLog { return &outputLog{log: log, scrubber: s} }

// stream is one output of a process.
type stream struct {
	chatter *outputLog
	name    string
	line    []byte // the incomplete line
}

func (c *outputLog) stream(name string) io.Writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &stream{chatter: c, name: name}
	c.streams = append(c.streams, s)
	return s
}

// Write never fails.
func (s *stream) Write(data []byte) (int, error) {
	s.chatter.mu.Lock()
	defer s.chatter.mu.Unlock()
	for rest := data; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		s.line = append(s.line, line[:min(len(line), chatterKept-len(s.line))]...)
		if ended {
			s.logLine()
		}
		rest = after
	}
	return len(data), nil
}

// logLine logs the completed line.
func (s *stream) logLine() {
	c := s.chatter
	text := excerpt.Short(c.scrubber.clean(string(s.line)), maxLineBytes)
	s.line = s.line[:0]
	if text == "" {
		return
	}
	if s.name == stderr {
		c.remember(text)
	}
	if now := time.Now(); now.Sub(c.window) >= logWindow {
		c.logDropped()
		c.window, c.lines = now, 0
	}
	if c.lines++; c.lines > maxLinesPerWindow {
		c.dropped++
		return
	}
	c.log.Info("an MCP server says", "stream", s.name, "text", text)
}

// remember keeps the last lines, up to a size.
func (c *outputLog) remember(text string) {
	c.last, c.size = append(c.last, text), c.size+len(text)
	for c.size > lastLinesBytes {
		c.size -= len(c.last[0])
		c.last = c.last[1:]
	}
}

// exitError returns the exit error of a process, with its last lines.
func (c *outputLog) exitError(exit error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.last) == 0 {
		return fmt.Errorf("the process: %w", exit)
	}
	return fmt.Errorf("the process: %w; its last words: %s", exit, strings.Join(c.last, "\n"))
}

func (c *outputLog) logDropped() {
	if c.dropped > 0 {
		c.log.Info("an MCP server says more than is logged", "lines", c.dropped)
		c.dropped = 0
	}
}

// flush logs the rest after the process has ended.
func (c *outputLog) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		s.logLine()
	}
	c.logDropped()
}
