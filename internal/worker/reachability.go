package worker

import (
	"sync"
	"time"
)

// unreachedAfter is how long no orchestrator has to be reached until that is said, and
// unreachedAgain how long it is not said again.
const (
	unreachableAfter = 2 * time.Second
	unreachableAgain = 30 * time.Second
)

// reach knows whether any slot has reached an orchestrator lately: been welcomed by one, that
// is, and not refused.
type reachability struct {
	notify       func(reached bool) // told when that changes; nil: nobody wants to know
	mu           sync.Mutex
	reached      bool      // one was reached, and it has not been said since that none can be
	failingSince time.Time // when the first of the failures was; zero: the last stream was opened
	loggedAt     time.Time // when it was last said that there are failures; zero: it was not
}

// failed counts a failure, and reports whether that is worth saying.
func (r *reachability) recordFailure(now time.Time) (say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failingSince.IsZero() {
		r.failingSince = now
	}
	if say = now.Sub(r.failingSince) >= unreachableAfter && now.Sub(r.loggedAt) >= unreachableAgain; say {
		r.loggedAt = now
		r.setReached(false)
	}
	return say
}

// opened ends the failures, and reports whether anything was said of them.
func (r *reachability) recordSuccess() (said bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setReached(true)
	said = !r.loggedAt.IsZero()
	r.failingSince, r.loggedAt = time.Time{}, time.Time{}
	return said
}

// set tells of a change. It needs the lock, so that the last that is told is true.
func (r *reachability) setReached(has bool) {
	if r.reached != has && r.notify != nil {
		r.notify(has)
	}
	r.reached = has
}
