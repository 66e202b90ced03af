package mcp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/sandbox"
)

// server is a managed server.
type server struct {
	Server
	times    times
	sandbox  *sandbox.Sandbox
	log      *slog.Logger
	scrubber scrubber

	wake        chan struct{}  // a call waits for the server
	calls       sync.WaitGroup // calls and probes in progress
	separateDir bool           // it runs in its own directory, which gets the owner of Dir
	ownDir      string         // that directory, once it exists; used only by run
	legacy      bool           // it needs the legacy protocol; used only by run
	lastOmitted string         // what was last logged as omitted; used only by run
	listHolds   time.Duration  // for how long the last list holds, as the server says; used only by run

	mu             sync.Mutex
	conn           *connection   // nil: it is down
	tools          []listedTool  // from the last list
	everListed     bool          // a list has succeeded before
	attempted      bool          // an attempt to connect has ended, other than because nothing was listening yet
	attemptStarted time.Time     // when that attempt started
	why            error         // why it is down
	changed        chan struct{} // closed when any of these changes
}

func newServer(s Server, box *sandbox.Sandbox, log *slog.Logger, t times) *server {
	return &server{
		Server: s, times: t, sandbox: box, log: log, scrubber: newScrubber(s.secrets),
		wake: make(chan struct{}, 1), attemptStarted: time.Now(), changed: make(chan struct{}),
	}
}

// set changes the state and notifies waiters.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// run connects repeatedly until ctx ends.
func (s *server) run(ctx context.Context) {
	defer s.removeOwnDir(ctx)
	defer s.calls.Wait()
	pauses := s.times.backoff()
	for ctx.Err() == nil {
		l, offers, err := s.connect(ctx)
		if err == nil {
			since := time.Now()
			s.set(func() { s.conn, s.tools, s.everListed, s.attempted, s.why = l, offers, true, true, nil })
			s.log.InfoContext(ctx, "an MCP server is connected", "tools", len(offers))
			err = s.watch(ctx, l)
			if time.Since(since) >= s.times.stable {
				pauses.Reset()
			}
		}
		s.set(func() { s.conn, s.attempted, s.why = nil, s.attempted || !isUnreachable(err), err })
		if ctx.Err() != nil {
			return
		}
		pause := pauses.NextBackOff()
		s.log.WarnContext(ctx, "an MCP server is down", "error", s.text(err), "next_attempt_in", pause)
		s.waitRetry(ctx, pause)
	}
}

// waitRetry waits before the next attempt. The wait is shorter if a call waits for the server,
// but at least the first pause.
func (s *server) waitRetry(ctx context.Context, pause time.Duration) {
	least := min(pause, s.times.pause)
	sleep(ctx, least)
	select {
	case <-ctx.Done():
	case <-s.wake:
	case <-time.After(pause - least):
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// relistEvery bounds how often a server can make its tools be listed.
const relistEvery = time.Second

// watch lists the tools again when they change, until the connection ends, and returns the
// reason. If ctx ends first, it ends the connection. Over HTTP, where change messages may be
// lost, it also lists them periodically. A failed list is repeated.
func (s *server) watch(ctx context.Context, l *connection) error {
	pauses, next := s.times.backoff(), s.relistTimer()
	for {
		select {
		case <-l.done:
			return l.why
		case <-ctx.Done():
			l.end(context.Cause(ctx))
			<-l.done
			return l.why
		case <-l.relist:
		case <-next:
		}
		if s.relist(ctx, l) {
			pauses.Reset()
			next = s.relistTimer()
		} else {
			next = time.After(pauses.NextBackOff())
		}
		select {
		case <-l.done:
		case <-ctx.Done():
		case <-time.After(relistEvery):
		}
	}
}

// relistTimer fires when the tools must be listed without a message of the server, not before it
// suggests that; nil: never.
func (s *server) relistTimer() <-chan time.Time {
	if s.URL == "" {
		return nil
	}
	return time.After(max(s.times.list, s.listHolds))
}

// relist lists the tools again, and reports whether that succeeded.
func (s *server) relist(ctx context.Context, l *connection) bool {
	offers, err := s.list(ctx, l)
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "listing the tools of an MCP server failed", "error", s.text(err))
		}
		return false
	}
	if old, _ := s.lastTools(); !reflect.DeepEqual(old, offers) {
		s.set(func() { s.tools = offers })
		s.log.InfoContext(ctx, "the tools of an MCP server have changed", "tools", len(offers))
	}
	return true
}

// lastTools returns the tools of the last list, and whether there was one.
func (s *server) lastTools() ([]listedTool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools, s.everListed
}

// isUnreachable reports whether nothing was listening. The server may be about to be started.
func isUnreachable(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// waitSettled waits until the server is up, or until an attempt to connect has shown that it
// will not be up soon. The limit counts from the first attempt.
func (s *server) waitSettled(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithDeadline(ctx, s.attemptStarted.Add(within))
	defer cancel()
	s.waitFor(ctx, func() bool { return s.attempted })
}

// waitFor waits until the state is as wanted, and reports whether it is.
func (s *server) waitFor(ctx context.Context, wanted func() bool) bool {
	for {
		s.mu.Lock()
		ok, changed := wanted(), s.changed
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// text returns an error without secrets and bounded.
func (s *server) text(err error) string {
	if err == nil {
		return ""
	}
	return excerpt.Short(s.scrubber.clean(err.Error()), maxError)
}

// maxError bounds the text of an error, in bytes.
const maxError = 2000
