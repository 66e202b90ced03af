package wire

import (
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestSilence counts intervals in which nothing arrived. What arrived in one of them is enough.
func TestSilence(t *testing.T) {
	t.Parallel()
	var s Silence
	for i, step := range []struct{ heard, tooLong bool }{
		{}, {}, {tooLong: true}, {heard: true}, {}, {}, {heard: true}, {heard: true}, {}, {}, {tooLong: true}, {tooLong: true},
	} {
		if step.heard {
			s.Break(nil)
		}
		if got := s.Tick(); got != step.tooLong {
			t.Errorf("after interval %d the silence is too long: %v", i, got)
		}
	}
}

// TestSilenceBeforeALargeMessage: it may last longer, until the message has arrived.
func TestSilenceBeforeALargeMessage(t *testing.T) {
	t.Parallel()
	var s Silence
	s.Break(Announcement(announcedBytes))
	for i, tooLong := range []bool{false, false, false, false, false, true} {
		if got := s.Tick(); got != tooLong {
			t.Errorf("in interval %d the silence is too long: %v", i, got)
		}
	}
	s.Break(&pb.Heartbeat{}) // it has arrived, and another message after it
	for i, tooLong := range []bool{false, false, false, true} {
		if got := s.Tick(); got != tooLong {
			t.Errorf("in interval %d after the message the silence is too long: %v", i, got)
		}
	}
	if Announcement(announcedBytes-1) != nil {
		t.Error("a small message is announced")
	}
}
