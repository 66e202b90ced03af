package orchestrator

import (
	"sync"
	"time"
)

// ratePeriod is the minimum time that a rate looks back; the maximum is twice that.
const ratePeriod = 100 * time.Millisecond

// rateCounter counts how often something happened recently. It is safe for concurrent use.
type rateCounter struct {
	mu                sync.Mutex
	periodStart       time.Time
	last              time.Time
	current, previous int
}

func (r *rateCounter) add(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rotate(now)
	r.current++
	r.last = now
}

// sinceLast returns how long ago it last happened.
func (r *rateCounter) sinceLast(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.last)
}

// recent returns how often it happened in the last one to two periods.
func (r *rateCounter) recent(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rotate(now)
	return r.current + r.previous
}

// rotate starts a new period when the current one is over.
func (r *rateCounter) rotate(now time.Time) {
	switch past := now.Sub(r.periodStart); {
	case past < ratePeriod:
		return
	case past < 2*ratePeriod:
		r.previous = r.current
	default:
		r.previous = 0
	}
	r.periodStart, r.current = now, 0
}
