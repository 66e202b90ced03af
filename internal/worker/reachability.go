package worker

import (
	"sync"
	"time"
)

// Failures are logged once no orchestrator has been reached for unreachableAfter, and then every
// unreachableAgain.
const (
	unreachableAfter = 2 * time.Second
	unreachableAgain = 30 * time.Second
)

// reachability tracks whether any slot has reached an orchestrator lately. An orchestrator counts
// as reached when it welcomes the slot, not when it refuses it.
type reachability struct {
	notify       func(reached bool) // called when reached changes; nil: not called
	mu           sync.Mutex
	reached      bool      // an orchestrator was reached, and no outage has been logged since
	failingSince time.Time // when the current failures began; zero: the last stream was opened
	loggedAt     time.Time // when the outage was last logged; zero: not yet
}

// recordFailure records that no stream could be opened. It reports whether the caller should log
// that.
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

// recordSuccess records that a stream was opened. It reports whether an outage had been logged.
func (r *reachability) recordSuccess() (said bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setReached(true)
	said = !r.loggedAt.IsZero()
	r.failingSince, r.loggedAt = time.Time{}, time.Time{}
	return said
}

// setReached notifies of changes. The caller holds mu, so that notifications come in order.
func (r *reachability) setReached(has bool) {
	if r.reached != has && r.notify != nil {
		r.notify(has)
	}
	r.reached = has
}
