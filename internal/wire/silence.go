package wire

import (
	"sync/atomic"
	"time"
)

// Each side of a worker's stream sends a heartbeat at each HeartbeatInterval. A side that receives
// nothing in maxSilentIntervals of them takes the stream for broken.
const (
	HeartbeatInterval  = time.Second
	maxSilentIntervals = 3
)

// Silence notices that the other side of a stream sends nothing any more. It counts intervals
// instead of comparing times: a pause of this process or of its whole machine is no silence of the
// other side, and counts as one interval however long it was.
type Silence struct {
	heard     atomic.Bool // something was received in this interval
	intervals int         // in which nothing was received, one after another
}

// Break records that something was received.
func (s *Silence) Break() { s.heard.Store(true) }

// Tick ends an interval, and reports whether the other side has been silent for too long. Only one
// goroutine may call it, with a ticker of HeartbeatInterval.
func (s *Silence) Tick() (tooLong bool) {
	s.intervals++
	if s.heard.Swap(false) {
		s.intervals = 0
	}
	return s.intervals >= maxSilentIntervals
}
