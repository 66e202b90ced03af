package orchestrator

import "sync"

// slotCounter counts the streams of this replica that are of slots, and those of them that are idle:
// on which there is no attempt.
type slotCounter struct {
	mu        sync.Mutex
	total     int
	idleCount int
}

// add counts a stream, which is idle.
func (c *slotCounter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	c.idleCount++
}

// remove counts a stream no longer.
func (c *slotCounter) remove(idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if idle {
		c.idleCount--
	}
}

// setIdle says that a stream is idle now, or is not any more.
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

// pullingSlots is how many idle slots may come for what is on the dispatch stream; of some of them
// the workers may not.
func (s *Service) pullingSlots() int { return s.slots.idle() - s.standby.size() }
