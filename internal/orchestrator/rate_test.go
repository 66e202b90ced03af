package orchestrator

import (
	"testing"
	"time"
)

func TestRateCounter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var p rateCounter
	for range 3 {
		p.add(now)
	}
	for _, test := range []struct {
		after time.Duration
		want  int
	}{
		{ratePeriod / 2, 3}, {ratePeriod, 3}, {ratePeriod * 3 / 2, 3}, {ratePeriod * 5 / 2, 0},
	} {
		if got := p.recent(now.Add(test.after)); got != test.want {
			t.Errorf("after %s: %d, want %d", test.after, got, test.want)
		}
	}
}
