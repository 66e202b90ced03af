package orchestrator

import (
	"sync"
	"time"
)

// minContactGap is the least value of contact.maxGap. Heartbeats are one sweepInterval apart.
const minContactGap = sweepInterval * 3 / 2

// contact records how long this replica has been in contact with the database without a gap. While
// the database is away no replica can record a heartbeat. So a replica that has just come back to
// the database does not know yet which others are dead.
type contact struct {
	maxGap time.Duration // between two heartbeats in contact

	mu          sync.Mutex
	since, last time.Time // the first heartbeat without a gap since, and the last one
}

// confirm records that a heartbeat of this replica has been stored.
func (c *contact) confirm(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() || now.Sub(c.last) > c.maxGap {
		c.since = now
	}
	c.last = now
}

// lasted returns how long the contact has lasted; 0 if it is interrupted.
func (c *contact) lasted(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() || now.Sub(c.last) > c.maxGap {
		return 0
	}
	return now.Sub(c.since)
}

// isInterrupted reports whether there was contact, and is none.
func (c *contact) isInterrupted(now time.Time) bool { return c.silence(now) > c.maxGap }

// silence returns how long ago the last heartbeat was stored; 0 if none was yet.
func (c *contact) silence(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() {
		return 0
	}
	return now.Sub(c.last)
}
