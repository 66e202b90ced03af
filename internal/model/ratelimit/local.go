package ratelimit

import (
	"slices"
	"time"
)

// localBucket is the rate limit bucket of one process, used while Redis is unavailable. It is
// simpler than bucket.lua: requests go first come, first served, whatever their flow.
//
// Places are times on a clock that stops while the bucket is closed. So the waiting requests do
// not all go at once when it opens.
type localBucket struct {
	rate        float64       // requests per second; 0: no known limit
	nextPlace   time.Time     // the next free place
	queue       []*ticket     // waiting requests, in the order of their places
	closedUntil time.Time     // no request goes before this time
	clockLag    time.Duration // how far the clock of the places lags at closedUntil
	loweredAt   time.Time
}

// Rates are in requests per second.
const (
	localDecrease  = 0.7   // factor, after a refusal
	localIncrease  = 1.001 // factor, with each request
	localFirstRate = 2     // the rate after the first refusal
	localMinRate   = 0.05
)

// enter returns how long the request must wait before it asks again, or 0 if it may go. A
// ticket without a place gets one, and keeps it over repeated calls.
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

// leave gives up a place. The places behind it move up by one.
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

// adoptRate takes over the shared rate. It drops the local places: the waiting requests have,
// or soon get, a place in the shared queue.
func (a *localBucket) adoptRate(rate float64) { a.rate, a.nextPlace, a.queue = rate, time.Time{}, nil }

// refuse lowers the rate, at most once per second.
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
