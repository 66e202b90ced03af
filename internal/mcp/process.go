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

// maxMessage bounds a message of a server, in bytes.
const maxMessage = 16 << 20

// withRealPaths returns the server with the real paths of its directories, resolved before any
// command of an agent has run. Links below the workspace are kept and rejected when the server
// starts, because agents may have created them.
func (s Server) withRealPaths(workspace string) Server {
	if !filepath.IsAbs(s.Dir) {
		s.Dir = filepath.Join(workspace, s.Dir)
	}
	root := resolvedPath(workspace)
	real := func(path string) string {
		for _, dir := range []string{workspace, root} {
			if below, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(below) {
				return filepath.Join(root, below)
			}
		}
		return resolvedPath(path)
	}
	s.Dir = real(s.Dir)
	s.Writable = slices.Clone(s.Writable)
	for i, path := range s.Writable {
		s.Writable[i] = real(path)
	}
	return s
}

// resolvedPath resolves symbolic links, as far as the path exists.
func resolvedPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolvedPath(dir), filepath.Base(path))
	}
	return path
}

// dir returns the working directory of the process. A directory of its own is created for the
// first process and reused, unless it was deleted meanwhile, for example by a cleanup of unused
// files.
func (s *server) dir() (string, error) {
	if !s.separateDir {
		return s.Dir, nil
	}
	if _, err := os.Lstat(s.ownDir); !errors.Is(err, fs.ErrNotExist) {
		return s.ownDir, nil
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
	s.ownDir = resolvedPath(made)
	return s.ownDir, nil
}

// removeOwnDir removes that directory, if there is one.
func (s *server) removeOwnDir(ctx context.Context) {
	if s.ownDir == "" {
		return
	}
	if err := sandbox.RemoveDir(s.ownDir); err != nil {
		s.log.WarnContext(ctx, "the directory of an MCP server is left behind", "error", err)
	}
}

// start starts the process of a server, which communicates over its standard input and output.
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
	// The process outlives the attempt to connect, and gets time to exit.
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	chatter := newOutputLog(s.log, s.scrubber)
	p, err := s.sandbox.Start(ctx, sandbox.Command{
		Argv: append([]string{s.Command}, s.Args...), Dir: dir, Writable: s.Writable, Env: s.Env, Network: s.Network,
		Stdin: stdin, Stdout: stdout, Stderr: chatter.stream(stderr),
	})
	// The process has its own copies of these ends.
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
		_ = toProcess.Close() // this asks the process to exit; the transport may have closed it already
		select {
		case <-exited:
		case <-time.After(s.times.close):
			kill()
			<-exited
		}
		_ = fromProcess.Close() // likewise
		if exit != nil {
			return chatter.exitError(exit)
		}
		return nil
	}
	replies := newReplies()
	context.AfterFunc(replies.broken, func() { _ = toProcess.Close() }) // a write that waits ends
	transport := &sdk.IOTransport{
		Reader: &messageReader{in: bufio.NewReader(fromProcess), close: fromProcess.Close, other: chatter.stream("stdout")},
		Writer: &timeoutWriter{File: toProcess, limit: s.times.write, end: replies.end}, MaxLineLength: maxMessage + 1,
	}
	return wire{transport: sendRecorder{transport, replies}, replies: replies, stop: stop, release: func() {}}, nil
}

// explainHidden adds to a connect error the files of the command line that exist for the worker
// but are hidden in the sandbox.
func (s *server) explainHidden(why error) error {
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

// sendRecorder records which calls are given to a transport, and bounds replies.
type sendRecorder struct {
	sdk.Transport
	replies *replies
}

func (n sendRecorder) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := n.Transport.Connect(ctx)
	return sendRecorderConn{c, n.replies}, err
}

type sendRecorderConn struct {
	sdk.Connection
	replies *replies
}

func (c sendRecorderConn) Write(ctx context.Context, message jsonrpc.Message) error {
	if f := callStatusOf(ctx); f != nil {
		f.sent.Store(true)
	}
	if _, ok := message.(*jsonrpc.Response); ok {
		return c.replies.send(func() error { return c.Connection.Write(ctx, message) })
	}
	return c.Connection.Write(ctx, message)
}

// timeoutWriter fails if its data is not read in time, so that a process which does not read
// cannot block its callers. That ends the connection, because a part may have been read.
type timeoutWriter struct {
	*os.File
	limit time.Duration
	end   func(error)
}

func (w *timeoutWriter) Write(data []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.limit)); err != nil {
		return 0, fmt.Errorf("writing to the process: %w", err)
	}
	n, err := w.File.Write(data)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.end(fmt.Errorf("writing to the process: %w", err))
	}
	return n, err
}

// messageReader reads the messages of a process, one per line. Other lines, such as a start-up
// banner, go to another writer.
type messageReader struct {
	in    *bufio.Reader
	close func() error
	other io.Writer
	rest  []byte // rest of the current message
}

func (m *messageReader) Close() error { return m.close() }

func (m *messageReader) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.line()
		if isMessage(line) {
			m.rest = append(bytes.TrimSpace(line), '\n')
			break
		}
		if len(line) > 0 {
			_, _ = m.other.Write(line) // it is the log, which never fails
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line reads a line. An error may come with the part that was read.
func (m *messageReader) line() ([]byte, error) {
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

// isMessage reports whether a line is one protocol message or a batch.
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
