package main

import (
	"slices"
	"testing"
	"time"
)

func TestBetween(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		times []time.Time
		want  []time.Duration
	}{
		{nil, nil},
		{[]time.Time{begin}, nil},
		{[]time.Time{begin, begin.Add(2), begin.Add(5)}, []time.Duration{2, 3}},
	} {
		if got := between(c.times); !slices.Equal(got, c.want) {
			t.Errorf("between %v there are %v, want %v", c.times, got, c.want)
		}
	}
}
