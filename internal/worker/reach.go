package worker

import (
	"sync"
	"time"
)

// unreachedAfter is how long no orchestrator has to be reached until that is said, and
// unreachedAgain how long it is not said again.
const (
	unreachedAfter = 2 * time.Second
	unreachedAgain = 30 * time.Second
)

// reach knows whether any slot has reached an orchestrator lately: been welcomed by one, that
// is, and not refused.
type reach struct {
	tell  func(reached bool) // told when that changes; nil: nobody wants to know
	mu    sync.Mutex
	has   bool      // one was reached, and it has not been said since that none can be
	since time.Time // when the first of the failures was; zero: the last stream was opened
	said  time.Time // when it was last said that there are failures; zero: it was not
}

// failed counts a failure, and reports whether that is worth saying.
func (r *reach) failed(now time.Time) (say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.since = now
	}
	if say = now.Sub(r.since) >= unreachedAfter && now.Sub(r.said) >= unreachedAgain; say {
		r.said = now
		r.set(false)
	}
	return say
}

// opened ends the failures, and reports whether anything was said of them.
func (r *reach) opened() (said bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(true)
	said = !r.said.IsZero()
	r.since, r.said = time.Time{}, time.Time{}
	return said
}

// set tells of a change. It needs the lock, so that the last that is told is true.
func (r *reach) set(has bool) {
	if r.has != has && r.tell != nil {
		r.tell(has)
	}
	r.has = has
}
