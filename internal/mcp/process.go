package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
)

// maxMessage bounds what a server says at once, in bytes.
const maxMessage = 16 << 20

// writeWithin is how long a process may take to read what it is told.
const writeWithin = 10 * time.Second

// placed is the server with the real paths of its directories, as they are before any
// command of an agent has run. Below the workspace links are left to be refused when
// the server starts: agents may have put them there.
func (s Server) placed(workspace string) Server {
	if !filepath.IsAbs(s.Dir) {
		s.Dir = filepath.Join(workspace, s.Dir)
	}
	root := resolved(workspace)
	real := func(path string) string {
		for _, dir := range []string{workspace, root} {
			if below, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(below) {
				return filepath.Join(root, below)
			}
		}
		return resolved(path)
	}
	s.Dir = real(s.Dir)
	s.Writable = slices.Clone(s.Writable)
	for i, path := range s.Writable {
		s.Writable[i] = real(path)
	}
	return s
}

// resolved is a path without symbolic links, as far as there is something yet.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// dir gives where the process runs. A directory of its own is made for the first one and
// stays for the next, unless somebody has cleared it away who looks for what is not used.
func (s *server) dir() (string, error) {
	if !s.apart {
		return s.Dir, nil
	}
	if _, err := os.Lstat(s.own); !errors.Is(err, fs.ErrNotExist) {
		return s.own, nil
	}
	made, err := os.MkdirTemp("", "coppice-mcp-")
	if err != nil {
		return "", fmt.Errorf("making a directory for the process: %w", err)
	}
	like, err := os.Stat(s.Dir)
	if err == nil {
		err = tool.ChownLike(made, like)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("making a directory for the process: %w", err), os.Remove(made))
	}
	s.own = resolved(made)
	return s.own, nil
}

// moveOut removes the directory of its own, if there is one.
func (s *server) moveOut(ctx context.Context) {
	if s.own == "" {
		return
	}
	if err := sandbox.RemoveDir(s.own); err != nil {
		s.log.WarnContext(ctx, "the directory of an MCP server is left behind", "error", err)
	}
}

// start starts the process of a server, which speaks over its standard input and
// output.
func (s *server) start(ctx context.Context) (wire, error) {
	dir, err := s.dir()
	if err != nil {
		return wire{}, err
	}
	stdin, toProcess, err := os.Pipe()
	if err != nil {
		return wire{}, fmt.Errorf("making a pipe: %w", err)
	}
	fromProcess, stdout, err := os.Pipe()
	if err != nil {
		return wire{}, errors.Join(fmt.Errorf("making a pipe: %w", err), stdin.Close(), toProcess.Close())
	}
	// It outlives the attempt to connect, and is given time to end by itself.
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	chatter := newChatter(s.log, s.scrubber)
	p, err := s.sandbox.Start(ctx, sandbox.Command{
		Argv: append([]string{s.Command}, s.Args...), Dir: dir, Writable: s.Writable, Env: s.Env, Network: s.Network,
		Stdin: stdin, Stdout: stdout, Stderr: chatter.stream(stderr),
	})
	// The process has its own ends of the pipes, if there is one.
	closed := errors.Join(stdin.Close(), stdout.Close())
	if err != nil {
		kill()
		return wire{}, errors.Join(err, closed, toProcess.Close(), fromProcess.Close())
	}
	exited := make(chan struct{})
	var exit error
	go func() {
		defer close(exited)
		exit = p.Wait()
		chatter.flush()
	}()
	stop := func() error {
		defer kill()
		_ = toProcess.Close() // which asks it to end; the transport may have closed it already
		select {
		case <-exited:
		case <-time.After(s.times.close):
			kill()
			<-exited
		}
		_ = fromProcess.Close() // likewise
		if exit != nil {
			return chatter.died(exit)
		}
		return nil
	}
	transport := &sdk.IOTransport{
		Reader: &messages{in: bufio.NewReader(fromProcess), close: fromProcess.Close, other: chatter.stream("stdout")},
		Writer: patientWriter{toProcess}, MaxLineLength: maxMessage + 1,
	}
	return wire{transport: noting{transport}, stop: stop, release: func() {}}, nil
}

// unseen adds to why a process could not be connected to which files it may have missed: those of
// its command line that the worker sees and it does not.
func (s *server) unseen(why error) error {
	var hidden []string
	for i, arg := range append([]string{s.Command}, s.Args...) {
		if i == 0 {
			if found, err := exec.LookPath(arg); err == nil {
				arg = found
			}
		}
		if filepath.IsAbs(arg) && s.sandbox.Hides(arg, sandbox.Command{Dir: s.Dir, Writable: s.Writable}) {
			hidden = append(hidden, arg)
		}
	}
	if len(hidden) == 0 {
		return why
	}
	return fmt.Errorf("%w; not visible in the sandbox: %s; what it needs can be named with --sandbox-readable", why, strings.Join(hidden, ", "))
}

// noting notes which calls are given to a transport.
type noting struct{ sdk.Transport }

func (n noting) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := n.Transport.Connect(ctx)
	return notingConn{c}, err
}

type notingConn struct{ sdk.Connection }

func (c notingConn) Write(ctx context.Context, message jsonrpc.Message) error {
	if f := fateOf(ctx); f != nil {
		f.sent.Store(true)
	}
	return c.Connection.Write(ctx, message)
}

// patientWriter fails if what it writes is not read in time, so that a process that
// does not listen can't hold up those that talk to it.
type patientWriter struct{ *os.File }

func (w patientWriter) Write(data []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return 0, fmt.Errorf("writing to the process: %w", err)
	}
	return w.File.Write(data)
}

// messages reads the messages that a process writes, a line each. Lines that are none,
// such as what a program greets with, go elsewhere.
type messages struct {
	in    *bufio.Reader
	close func() error
	other io.Writer
	rest  []byte // of the message that is being read
}

func (m *messages) Close() error { return m.close() }

func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.line()
		if isMessage(line) {
			m.rest = append(bytes.TrimSpace(line), '\n')
			break
		}
		if len(line) > 0 {
			_, _ = m.other.Write(line) // it is the log
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line reads a line. An error comes with what was read before it.
func (m *messages) line() ([]byte, error) {
	var line []byte
	for {
		chunk, err := m.in.ReadSlice('\n')
		line = append(line, chunk...)
		switch {
		case err == nil || !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		case len(line) > maxMessage:
			return nil, fmt.Errorf("it wrote a line of more than %d bytes", maxMessage)
		}
	}
}

// isMessage reports whether a line is a message of the protocol, or several.
func isMessage(line []byte) bool {
	several := []json.RawMessage{line}
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) && json.Unmarshal(line, &several) != nil {
		return false
	}
	for _, one := range several {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return false
		}
	}
	return len(several) > 0
}
