package wire

import (
	"sync/atomic"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Each side of a worker's stream sends a heartbeat at each HeartbeatInterval. A side that receives
// nothing in maxSilentIntervals of them takes the stream for broken.
//
// A message counts once all of it has arrived, and nothing can overtake it. So a large one is
// announced, and may take an interval longer for each bytesPerInterval. Otherwise a slow link would
// never carry it: it would break, and the message would be sent again.
const (
	HeartbeatInterval  = time.Second
	maxSilentIntervals = 3
	bytesPerInterval   = 64 << 10
	announcedBytes     = 2 * bytesPerInterval // size from which a message is announced
)

// Announcement returns the heartbeat that announces a message of this size; nil if none has to.
func Announcement(size int) *pb.Heartbeat {
	if size < announcedBytes {
		return nil
	}
	return &pb.Heartbeat{NextBytes: int64(size)}
}

// Silence notices that the other side of a stream sends nothing any more. It counts intervals
// instead of comparing times: a pause of this process or of its whole machine is no silence of the
// other side, and counts as one interval however long it was.
type Silence struct {
	heard     atomic.Bool  // something was received in this interval
	expected  atomic.Int64 // size of the announced message that has not arrived yet
	intervals int          // in which nothing was received, one after another
}

// Break records that something was received, and what it announces: a heartbeat, or nil.
func (s *Silence) Break(h *pb.Heartbeat) {
	s.expected.Store(h.GetNextBytes())
	s.heard.Store(true)
}

// Tick ends an interval, and reports whether the other side has been silent for too long. Only one
// goroutine may call it, with a ticker of HeartbeatInterval.
func (s *Silence) Tick() (tooLong bool) {
	s.intervals++
	if s.heard.Swap(false) {
		s.intervals = 0
	}
	return s.intervals >= maxSilentIntervals+int(s.expected.Load()/bytesPerInterval)
}
