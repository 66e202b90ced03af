package orchestrator

import (
	"net"
	"sync"

	"github.com/coppice-run/coppice/internal/alive"
)

// seat is a stream's place for an attempt. Receiver, sender and committers use it at once.
type seat struct {
	census *census

	mu      sync.Mutex
	lease   *lease        // nil: no attempt is on the stream
	closed  bool          // the stream takes no attempt any more
	counted bool          // as a slot
	worker  *alive.Worker // whose stream it is; nil: that was not said, or it can't be asked whether it lives
}

func (s *seat) current() *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// put puts an attempt on the stream. It reports false if that takes none any more.
func (s *seat) put(next *lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.set(next)
	}
	return !s.closed
}

// clear takes the attempt off the stream; nil if there is none.
func (s *seat) clear() (last *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last = s.lease
	s.set(nil)
	return last
}

// set needs the lock.
func (s *seat) set(next *lease) {
	if had := s.lease != nil; s.counted && had != (next != nil) {
		s.census.turned(had)
	}
	s.lease = next
}

// close makes the stream take no attempt any more.
func (s *seat) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// unlessClosed does something before the seat is closed, or not at all.
func (s *seat) unlessClosed(do func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && do()
}

// uncount says that the stream is none of a slot, or is none any more: one that a
// command is on carries no run of an agent, nor does one of a worker of another pool, but for
// those that it has since before.
func (s *seat) uncount() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted {
		s.counted = false
		s.census.left(s.lease == nil)
	}
}

// meet notes whose stream it is, the first time.
func (s *seat) meet(all *alive.Prober, id string, from net.Addr, port uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker == nil && !s.closed {
		s.worker = all.StreamOpened(id, from, port)
	}
}

func (s *seat) whose() *alive.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

// leave says that the stream is nobody's any more.
func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker.StreamClosed()
	s.worker = nil
}
