package governor

import "time"

// alone is a bucket of this process only, for the time without Redis. It is cruder
// than what bucket.lua does.
type alone struct {
	rate    float64 // requests a second; 0: no limit is known
	next    time.Time
	closed  time.Time
	lowered time.Time
}

// Rates are in requests a second.
const (
	aloneLowered = 0.7   // of the rate, after a refusal
	aloneClimbs  = 1.001 // of the rate, with each request
	aloneFirst   = 2     // the rate after the first refusal
	aloneSlowest = 0.05
)

// promised is the ticket of one who has been given a time to go.
const promised = -1

// enter gives how long to wait before asking again; 0 to go. Who has waited for as
// long as was said may go unless the bucket was closed meanwhile.
func (a *alone) enter(now time.Time, ticket *int64) time.Duration {
	if *ticket == promised && !now.Before(a.closed) {
		return 0
	}
	*ticket = promised
	at := now
	for _, t := range []time.Time{a.closed, a.next} {
		if t.After(at) {
			at = t
		}
	}
	if a.rate > 0 {
		a.rate *= aloneClimbs
		a.next = at.Add(time.Duration(float64(time.Second) / a.rate))
	}
	return at.Sub(now)
}

// learn takes over the rate that all share.
func (a *alone) learn(rate float64) { a.rate = rate }

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
		a.closed = closed
	}
}
