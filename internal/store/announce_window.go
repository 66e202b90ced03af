package store

import (
	"sync"
	"time"
)

// announceWindow is how many runs commits may announce as they make them ready. While no run waits
// for its turn there is nothing to choose from, and a picker's transaction would only add delay.
// The window is an estimate, because a replica sees only its own commits. The next pick corrects
// it, and the room limits how much is announced in excess.
type announceWindow struct {
	mu          sync.Mutex
	room        int // for announcements; 0: a run may be waiting for its turn
	outstanding int // announcements that are not claimed yet
	lease       time.Duration
	disabled    bool // there are caps, which only the picker keeps
}

// open is called when a pick has found no waiting run.
func (a *announceWindow) open(room, inForce int, lease time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.disabled {
		a.room, a.outstanding, a.lease = room, inForce, lease
	}
}

// close is called when a run may be waiting for its turn.
func (a *announceWindow) close() { a.open(0, 0, 0) }

// mayHaveQueuedRuns reports whether a run may be waiting for its turn.
func (a *announceWindow) mayHaveQueuedRuns() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room == 0
}

// fitsIdleSlots reports whether no run waits for its turn, and the outstanding announcements are at
// most as many as the idle slots.
func (a *announceWindow) fitsIdleSlots(idle int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room > 0 && a.outstanding <= idle
}

// available is how many runs may be announced now, and for how long.
func (a *announceWindow) available() (int, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room - a.outstanding, a.lease
}

// committed takes in how many runs a commit has announced and left waiting, and how many are gone:
// claimed, or not ready any more.
func (a *announceWindow) committed(announced, waiting, gone int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if waiting > 0 {
		a.room = 0
	}
	a.outstanding = max(0, a.outstanding+announced-gone)
}
