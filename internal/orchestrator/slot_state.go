package orchestrator

import (
	"net"
	"sync"

	"github.com/coppice-run/coppice/internal/alive"
)

// slotState holds the attempt on a stream and the worker of the stream. The receiver, the sender
// and committers use it concurrently.
type slotState struct {
	slots *slotCounter

	mu      sync.Mutex
	lease   *lease        // nil: no attempt is on the stream
	closed  bool          // the stream accepts no more attempts
	counted bool          // the stream counts as a slot
	worker  *alive.Worker // the worker of the stream; nil: unknown, or its liveness can't be checked
}

func (s *slotState) currentLease() *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// putLease puts an attempt on the stream, and reports false if the state is closed.
func (s *slotState) putLease(next *lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.setLease(next)
	}
	return !s.closed
}

// clearLease removes and returns the attempt on the stream; nil if there is none.
func (s *slotState) clearLease() (last *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last = s.lease
	s.setLease(nil)
	return last
}

// setLease requires the lock.
func (s *slotState) setLease(next *lease) {
	if had := s.lease != nil; s.counted && had != (next != nil) {
		s.slots.setIdle(had)
	}
	s.lease = next
}

// close makes the stream refuse new attempts.
func (s *slotState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// ifOpen calls do under the lock, unless the state is closed.
func (s *slotState) ifOpen(do func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && do()
}

// uncount stops counting the stream as a slot. A stream that carries a background command runs no
// agents, and a stream of a worker of another pool takes no more runs than it has.
func (s *slotState) uncount() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted {
		s.counted = false
		s.slots.remove(s.lease == nil)
	}
}

// setWorker sets the worker of the stream. Only the first call has an effect, and none after close.
func (s *slotState) setWorker(prober *alive.Prober, id string, from net.Addr, port uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker == nil && !s.closed {
		s.worker = prober.StreamOpened(id, from, port)
	}
}

func (s *slotState) currentWorker() *alive.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

// releaseWorker removes the worker of the stream.
func (s *slotState) releaseWorker() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker.StreamClosed()
	s.worker = nil
}
