package orchestrator

import (
	"context"
	"sync"

	"github.com/coppice-run/coppice/internal/tree"
)

// tails holds the tails of the sessions that are being watched.
type tails struct {
	mu        sync.Mutex
	bySession map[tree.SessionID]*tail
}

// joinTail adds a watcher to the tail of a session, until leave is called. The last call of leave
// waits until the goroutine that reads has ended.
func (s *Service) joinTail(id tree.SessionID, untilIdle bool) (t *tail, leave func()) {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	t = s.tails.bySession[id]
	if t == nil || t.hasFailed() {
		t = s.newTail(id)
		if s.tails.bySession == nil {
			s.tails.bySession = map[tree.SessionID]*tail{}
		}
		s.tails.bySession[id] = t
	}
	t.addWatchers(1, untilIdle)
	return t, func() {
		if s.leaveTail(t, untilIdle) {
			t.stop()
			<-t.done
		}
	}
}

// newTail starts a tail. It is independent of the watcher that comes first, so it does not use that
// watcher's context.
func (s *Service) newTail(id tree.SessionID) *tail {
	reading, stop := context.WithCancel(context.Background())
	f := newTailFeed()
	leave := s.hub.subscribe(id, f)
	t := &tail{
		svc: s, session: id, reread: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
		stop: func() { stop(); leave() },
	}
	s.serving.Go(func() { t.run(reading, f) })
	return t
}

// leaveTail removes a watcher, and reports whether it was the last.
func (s *Service) leaveTail(t *tail, untilIdle bool) (last bool) {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	if t.addWatchers(-1, untilIdle) > 0 {
		return false
	}
	if s.tails.bySession[t.session] == t {
		delete(s.tails.bySession, t.session)
	}
	return true
}

// addWatchers adds by, which may be negative, to the number of watchers, and returns the new
// number. A new watcher that waits for the session to be idle makes the tail check.
func (t *tail) addWatchers(by int, untilIdle bool) (watchers int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers += by
	if untilIdle {
		t.idleWaiters += by
	}
	if untilIdle && by > 0 {
		t.requestRead()
	}
	return t.watchers
}

func (t *tail) hasFailed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}
