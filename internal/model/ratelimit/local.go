package ratelimit

import (
	"slices"
	"time"
)

// alone is a bucket of this process only, for the time without Redis. It is cruder
// than what bucket.lua does: who came first goes first, whatever the flow.
//
// Places are times by a clock that stands still while the bucket is closed, so that
// those who wait do not all go when it opens.
type alone struct {
	rate    float64       // requests a second; 0: no limit is known
	next    time.Time     // the next place
	queue   []*ticket     // of those who wait, by their places
	closed  time.Time     // until when nothing goes
	stood   time.Duration // how far the clock of the places will be behind then
	lowered time.Time
}

// Rates are in requests a second.
const (
	aloneLowered = 0.7   // of the rate, after a refusal
	aloneClimbs  = 1.001 // of the rate, with each request
	aloneFirst   = 2     // the rate after the first refusal
	aloneSlowest = 0.05
)

// enter gives how long to wait before asking again; 0 to go. Who has no place here is
// given one, which is kept however often is asked.
func (a *alone) enter(now time.Time, t *ticket) time.Duration {
	if t.at.IsZero() {
		t.at = latest(now, a.closed).Add(-a.stood)
		if a.next.After(t.at) {
			t.at = a.next
		}
		if a.rate > 0 {
			a.rate *= aloneClimbs
			a.next = t.at.Add(time.Duration(float64(time.Second) / a.rate))
			a.queue = append(a.queue, t)
		}
	}
	wait := max(0, latest(t.at.Add(a.stood), a.closed).Sub(now))
	if i := slices.Index(a.queue, t); wait == 0 && i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
	}
	return wait
}

// leave gives a place up: those behind it move up by one.
func (a *alone) leave(t *ticket) {
	i := slices.Index(a.queue, t)
	if i < 0 {
		return
	}
	a.next = a.queue[len(a.queue)-1].at
	for j := len(a.queue) - 1; j > i; j-- {
		a.queue[j].at = a.queue[j-1].at
	}
	a.queue = slices.Delete(a.queue, i, i+1)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// learn takes over the rate that all share. The places that were given here have ended:
// who waits has one with all the others now, or soon.
func (a *alone) learn(rate float64) { a.rate, a.next, a.queue = rate, time.Time{}, nil }

// refuse lowers the rate, once a second at most.
func (a *alone) refuse(now time.Time, after time.Duration) {
	if now.Sub(a.lowered) >= time.Second {
		a.lowered = now
		if a.rate == 0 {
			a.rate = aloneFirst / aloneLowered
		}
		a.rate = max(a.rate*aloneLowered, aloneSlowest)
	}
	if closed := now.Add(after); closed.After(a.closed) {
		a.stood += closed.Sub(latest(now, a.closed))
		a.closed = closed
	}
}
