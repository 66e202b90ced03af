package orchestrator

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var p pace
	for range 3 {
		p.add(now)
	}
	for _, test := range []struct {
		after time.Duration
		want  int
	}{
		{pacePeriod / 2, 3}, {pacePeriod, 3}, {pacePeriod * 3 / 2, 3}, {pacePeriod * 5 / 2, 0},
	} {
		if got := p.lately(now.Add(test.after)); got != test.want {
			t.Errorf("after %s: %d, want %d", test.after, got, test.want)
		}
	}
}
