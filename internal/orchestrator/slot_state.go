package orchestrator

import (
	"net"
	"sync"

	"github.com/coppice-run/coppice/internal/alive"
)

// slotState is a stream's place for an attempt. Receiver, sender and committers use it at once.
type slotState struct {
	slots *slotCounter

	mu      sync.Mutex
	lease   *lease        // nil: no attempt is on the stream
	closed  bool          // the stream takes no attempt any more
	counted bool          // as a slot
	worker  *alive.Worker // whose stream it is; nil: that was not said, or it can't be asked whether it lives
}

func (s *slotState) currentLease() *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// putLease puts an attempt on the stream. It reports false if that takes none any more.
func (s *slotState) putLease(next *lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.setLease(next)
	}
	return !s.closed
}

// clearLease takes the attempt off the stream; nil if there is none.
func (s *slotState) clearLease() (last *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last = s.lease
	s.setLease(nil)
	return last
}

// setLease needs the lock.
func (s *slotState) setLease(next *lease) {
	if had := s.lease != nil; s.counted && had != (next != nil) {
		s.slots.setIdle(had)
	}
	s.lease = next
}

// close makes the stream take no attempt any more.
func (s *slotState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// ifOpen does something before the seat is closed, or not at all.
func (s *slotState) ifOpen(do func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && do()
}

// uncount says that the stream is none of a slot, or is none any more: one that a
// command is on carries no run of an agent, nor does one of a worker of another pool, but for
// those that it has since before.
func (s *slotState) uncount() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted {
		s.counted = false
		s.slots.remove(s.lease == nil)
	}
}

// setWorker notes whose stream it is, the first time.
func (s *slotState) setWorker(all *alive.Prober, id string, from net.Addr, port uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker == nil && !s.closed {
		s.worker = all.Meet(id, from, port)
	}
}

func (s *slotState) currentWorker() *alive.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

// releaseWorker says that the stream is nobody's any more.
func (s *slotState) releaseWorker() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker.Leave()
	s.worker = nil
}
