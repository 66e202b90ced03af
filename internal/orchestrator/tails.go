package orchestrator

import (
	"context"
	"sync"

	"github.com/coppice-run/coppice/internal/tree"
)

// tails are the tails of the sessions that are watched at this moment.
type tails struct {
	mu   sync.Mutex
	held map[tree.SessionID]*tail
}

// tail joins those who watch a session's tail, until leave is called. The last who
// leaves waits until nobody reads for it any more.
func (s *Service) tail(id tree.SessionID, untilIdle bool) (t *tail, leave func()) {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	t = s.tails.held[id]
	if t == nil || t.failed() {
		t = s.newTail(id)
		if s.tails.held == nil {
			s.tails.held = map[tree.SessionID]*tail{}
		}
		s.tails.held[id] = t
	}
	t.join(1, untilIdle)
	return t, func() {
		if s.leave(t, untilIdle) {
			t.stop()
			<-t.done
		}
	}
}

// newTail begins to read for whoever comes: it is no one watcher's, and holds nothing of
// the first one.
func (s *Service) newTail(id tree.SessionID) *tail {
	reading, stop := context.WithCancel(context.Background())
	f := newTailFeed()
	leave := s.hub.subscribe(id, f)
	t := &tail{
		svc: s, session: id, again: make(chan struct{}, 1), done: make(chan struct{}), news: make(chan struct{}),
		stop: func() { stop(); leave() },
	}
	s.serving.Go(func() { t.run(reading, f) })
	return t
}

// leave reports whether that was the last watcher.
func (s *Service) leave(t *tail, untilIdle bool) (last bool) {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	if t.join(-1, untilIdle) > 0 {
		return false
	}
	if s.tails.held[t.session] == t {
		delete(s.tails.held, t.session)
	}
	return true
}

// join counts watchers. Who wants to know when the session is idle has the tail look.
func (t *tail) join(by int, untilIdle bool) (watchers int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers += by
	if untilIdle {
		t.waiting += by
	}
	if untilIdle && by > 0 {
		t.readAgain()
	}
	return t.watchers
}

func (t *tail) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}
