package orchestrator

import (
	"sync"
	"time"
)

// pacePeriod is the time that a pace looks back on, at least; twice that at most.
const pacePeriod = 100 * time.Millisecond

// pace counts how often something happened lately.
type pace struct {
	mu              sync.Mutex
	begun           time.Time
	last            time.Time
	current, before int
}

func (p *pace) add(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	p.current++
	p.last = now
}

// quiet is for how long it has not happened.
func (p *pace) quiet(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.last)
}

// lately is how often it happened in the last one to two periods.
func (p *pace) lately(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	return p.current + p.before
}

// turn begins a new period if it is time.
func (p *pace) turn(now time.Time) {
	switch past := now.Sub(p.begun); {
	case past < pacePeriod:
		return
	case past < 2*pacePeriod:
		p.before = p.current
	default:
		p.before = 0
	}
	p.begun, p.current = now, 0
}
