package orchestrator

import (
	"sync"
	"time"
)

// ratePeriod is the time that a pace looks back on, at least; twice that at most.
const ratePeriod = 100 * time.Millisecond

// rateCounter counts how often something happened lately.
type rateCounter struct {
	mu                sync.Mutex
	periodStart       time.Time
	last              time.Time
	current, previous int
}

func (p *rateCounter) add(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate(now)
	p.current++
	p.last = now
}

// sinceLast is for how long it has not happened.
func (p *rateCounter) sinceLast(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.last)
}

// recent is how often it happened in the last one to two periods.
func (p *rateCounter) recent(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate(now)
	return p.current + p.previous
}

// rotate begins a new period if it is time.
func (p *rateCounter) rotate(now time.Time) {
	switch past := now.Sub(p.periodStart); {
	case past < ratePeriod:
		return
	case past < 2*ratePeriod:
		p.previous = p.current
	default:
		p.previous = 0
	}
	p.periodStart, p.current = now, 0
}
