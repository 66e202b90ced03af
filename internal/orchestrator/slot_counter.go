package orchestrator

import "sync"

// slotCounter counts the streams of this replica that are slots, and the idle ones among them,
// which carry no attempt.
type slotCounter struct {
	mu        sync.Mutex
	total     int
	idleCount int
}

// add counts a new stream, which is idle.
func (c *slotCounter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	c.idleCount++
}

// remove stops counting a stream.
func (c *slotCounter) remove(idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if idle {
		c.idleCount--
	}
}

// setIdle records that one stream became idle, or is no longer idle.
func (c *slotCounter) setIdle(idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle {
		c.idleCount++
	} else {
		c.idleCount--
	}
}

func (c *slotCounter) idle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idleCount
}

func (c *slotCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// pullingSlots returns how many idle slots may read hints from the dispatch stream. The workers of
// some of them may not reach Redis.
func (s *Service) pullingSlots() int { return s.slots.idle() - s.standby.size() }
