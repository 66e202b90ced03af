package orchestrator

import "sync"

// census counts the streams of this replica that are of slots, and those of them that are idle:
// on which there is no attempt.
type census struct {
	mu   sync.Mutex
	all  int
	free int
}

// joined counts a stream, which is idle.
func (c *census) joined() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	c.free++
}

// left counts a stream no longer.
func (c *census) left(idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if idle {
		c.free--
	}
}

// turned says that a stream is idle now, or is not any more.
func (c *census) turned(idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle {
		c.free++
	} else {
		c.free--
	}
}

func (c *census) idle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.free
}

func (c *census) slots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// pulling is how many idle slots may come for what is on the dispatch stream; of some of them
// the workers may not.
func (s *Service) pulling() int { return s.census.idle() - s.standby.size() }
