package store

import (
	"sync"
	"time"
)

// announceWindow is how many runs may be announced with the commit that makes them ready. While
// nothing waits for its turn there is nothing to choose from, and the transaction of a
// picker would only be a delay. It is a guess, as a replica sees only its own commits:
// the next look puts it right, and what is announced too much is bounded by the room.
type announceWindow struct {
	mu          sync.Mutex
	room        int // for announcements; 0: something may be waiting
	outstanding int // announcements that nobody has claimed yet
	lease       time.Duration
	disabled    bool // caps are kept by the picker alone
}

// open says that nothing waits.
func (a *announceWindow) open(room, inForce int, lease time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.disabled {
		a.room, a.outstanding, a.lease = room, inForce, lease
	}
}

// close says that something may be waiting.
func (a *announceWindow) close() { a.open(0, 0, 0) }

// mayHaveBacklog reports whether something may be waiting.
func (a *announceWindow) mayHaveBacklog() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room == 0
}

// fitsIdleSlots reports whether nothing waits for its turn, and what was announced is at most what
// so many idle slots can take.
func (a *announceWindow) fitsIdleSlots(idle int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room > 0 && a.outstanding <= idle
}

// available is how many runs may be announced at the moment, and for how long.
func (a *announceWindow) available() (int, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room - a.outstanding, a.lease
}

// committed takes in what a commit has announced, has left waiting, and what has been
// claimed or is not ready any more.
func (a *announceWindow) committed(announced, waiting, gone int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if waiting > 0 {
		a.room = 0
	}
	a.outstanding = max(0, a.outstanding+announced-gone)
}
