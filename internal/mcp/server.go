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

// server is a configured server being kept.
type server struct {
	Server
	times    times
	sandbox  *sandbox.Sandbox
	log      *slog.Logger
	scrubber scrubber

	wake        chan struct{}  // somebody waits for it to come back
	calls       sync.WaitGroup // calls and probes under way
	separateDir bool           // it runs in a directory of its own, whose owner is that of Dir
	ownDir      string         // that directory, once it is made; the keeper's own
	legacy      bool           // it is greeted as servers before 2026-07-28 are; the keeper's own
	lastOmitted string         // what was last said to be left out; the keeper's own

	mu             sync.Mutex
	conn           *connection   // nil: it is down
	tools          []listedTool  // that were listed last
	everListed     bool          // they were listed at all
	attempted      bool          // an attempt to connect is over that says more than that nobody is there yet
	attemptStarted time.Time     // that attempt
	why            error         // it is down
	changed        chan struct{} // closed when any of these changes
}

func newServer(s Server, box *sandbox.Sandbox, log *slog.Logger, t times) *server {
	return &server{
		Server: s, times: t, sandbox: box, log: log, scrubber: newScrubber(s.secrets),
		wake: make(chan struct{}, 1), attemptStarted: time.Now(), changed: make(chan struct{}),
	}
}

// set changes the state and tells those who wait for that.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// run connects again and again until ctx ends.
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

// waitRetry waits before the next attempt: not as long if a call waits for the server, but
// at least as long as before the first.
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

// relistEvery is how often a server may have its tools listed anew.
const relistEvery = time.Second

// watch lists the tools anew when they change, until the connection ends, and says why
// it did. If ctx ends first, it ends the connection. Over HTTP, where what a server says
// unasked may be lost, it lists them from time to time too. What fails is tried again.
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

// relistTimer tells when tools are to be listed though the server has not said so; nil: never.
func (s *server) relistTimer() <-chan time.Time {
	if s.URL == "" {
		return nil
	}
	return time.After(s.times.list)
}

// relist lists the tools anew, and reports whether it could.
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

// lastTools gives the tools that were listed last, and whether any ever were.
func (s *server) lastTools() ([]listedTool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools, s.everListed
}

// isUnreachable reports whether nobody was there to connect to: a server that is started beside the
// worker may be about to be.
func isUnreachable(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// waitSettled waits until the server is up, or an attempt to connect has shown that it will not be
// soon, but not longer after the first one began than that may take.
func (s *server) waitSettled(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithDeadline(ctx, s.attemptStarted.Add(within))
	defer cancel()
	s.waitFor(ctx, func() bool { return s.attempted })
}

// waitFor waits until the state is as it is wanted, and reports whether it is.
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

// text gives an error as it may be shown.
func (s *server) text(err error) string {
	if err == nil {
		return ""
	}
	return excerpt.Short(cleaned(s.scrubber.scrub(err.Error())), maxError)
}

// maxError bounds the text of an error, in bytes.
const maxError = 2000
