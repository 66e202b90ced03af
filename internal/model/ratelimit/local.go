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
type localBucket struct {
	rate        float64       // requests a second; 0: no limit is known
	nextPlace   time.Time     // the next place
	queue       []*ticket     // of those who wait, by their places
	closedUntil time.Time     // until when nothing goes
	clockLag    time.Duration // how far the clock of the places will be behind then
	loweredAt   time.Time
}

// Rates are in requests a second.
const (
	localDecrease  = 0.7   // of the rate, after a refusal
	localIncrease  = 1.001 // of the rate, with each request
	localFirstRate = 2     // the rate after the first refusal
	localMinRate   = 0.05
)

// enter gives how long to wait before asking again; 0 to go. Who has no place here is
// given one, which is kept however often is asked.
func (a *localBucket) enter(now time.Time, t *ticket) time.Duration {
	if t.localPlace.IsZero() {
		t.localPlace = latest(now, a.closedUntil).Add(-a.clockLag)
		if a.nextPlace.After(t.localPlace) {
			t.localPlace = a.nextPlace
		}
		if a.rate > 0 {
			a.rate *= localIncrease
			a.nextPlace = t.localPlace.Add(time.Duration(float64(time.Second) / a.rate))
			a.queue = append(a.queue, t)
		}
	}
	wait := max(0, latest(t.localPlace.Add(a.clockLag), a.closedUntil).Sub(now))
	if i := slices.Index(a.queue, t); wait == 0 && i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
	}
	return wait
}

// leave gives a place up: those behind it move up by one.
func (a *localBucket) leave(t *ticket) {
	i := slices.Index(a.queue, t)
	if i < 0 {
		return
	}
	a.nextPlace = a.queue[len(a.queue)-1].localPlace
	for j := len(a.queue) - 1; j > i; j-- {
		a.queue[j].localPlace = a.queue[j-1].localPlace
	}
	a.queue = slices.Delete(a.queue, i, i+1)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// adoptRate takes over the rate that all share. The places that were given here have ended:
// who waits has one with all the others now, or soon.
func (a *localBucket) adoptRate(rate float64) { a.rate, a.nextPlace, a.queue = rate, time.Time{}, nil }

// refuse lowers the rate, once a second at most.
func (a *localBucket) refuse(now time.Time, after time.Duration) {
	if now.Sub(a.loweredAt) >= time.Second {
		a.loweredAt = now
		if a.rate == 0 {
			a.rate = localFirstRate / localDecrease
		}
		a.rate = max(a.rate*localDecrease, localMinRate)
	}
	if closed := now.Add(after); closed.After(a.closedUntil) {
		a.clockLag += closed.Sub(latest(now, a.closedUntil))
		a.closedUntil = closed
	}
}
