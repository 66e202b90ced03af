package store

import (
	"sync"
	"time"
)

// ahead is how many runs may be announced with the commit that makes them ready. While
// nothing waits for its turn there is nothing to choose from, and the transaction of a
// picker would only be a delay. It is a guess, as a replica sees only its own commits:
// the next look puts it right, and what is announced too much is bounded by the room.
type ahead struct {
	mu       sync.Mutex
	room     int // for announcements; 0: something may be waiting
	inForce  int // announcements that nobody has claimed yet
	lease    time.Duration
	disabled bool // caps are kept by the picker alone
}

// open says that nothing waits.
func (a *ahead) open(room, inForce int, lease time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.disabled {
		a.room, a.inForce, a.lease = room, inForce, lease
	}
}

// close says that something may be waiting.
func (a *ahead) close() { a.open(0, 0, 0) }

// behind reports whether something may be waiting.
func (a *ahead) behind() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room == 0
}

// spares reports whether nothing waits for its turn, and what was announced is at most what
// so many idle slots can take.
func (a *ahead) spares(idle int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room > 0 && a.inForce <= idle
}

// free is how many runs may be announced at the moment, and for how long.
func (a *ahead) free() (int, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room - a.inForce, a.lease
}

// committed takes in what a commit has announced, has left waiting, and what has been
// claimed or is not ready any more.
func (a *ahead) committed(announced, waiting, gone int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if waiting > 0 {
		a.room = 0
	}
	a.inForce = max(0, a.inForce+announced-gone)
}
