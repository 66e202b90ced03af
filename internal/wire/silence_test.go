package wire

import "testing"

// TestSilence counts intervals in which nothing arrived. What arrived in one of them is enough.
func TestSilence(t *testing.T) {
	t.Parallel()
	var s Silence
	for i, step := range []struct{ heard, tooLong bool }{
		{}, {}, {tooLong: true}, {heard: true}, {}, {}, {heard: true}, {heard: true}, {}, {}, {tooLong: true}, {tooLong: true},
	} {
		if step.heard {
			s.Break()
		}
		if got := s.Tick(); got != step.tooLong {
			t.Errorf("after interval %d the silence is too long: %v", i, got)
		}
	}
}
