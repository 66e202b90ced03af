package assembly

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestProcessorsFollowTheLoad: little load for a while leaves one processor, and much gives all
// back. Neither a short pause nor a collection of garbage changes anything.
func TestProcessorsFollowTheLoad(t *testing.T) {
	t.Parallel()
	type phase struct {
		load  float64
		lasts time.Duration
	}
	const light, medium, heavy, collecting = 0.3, 0.48, 0.9, 0.6
	for name, test := range map[string]struct {
		phases []phase
		want   []bool // what single becomes
	}{
		"it is never busy":                  {[]phase{{light, time.Second}}, []bool{true}},
		"it is always busy":                 {[]phase{{heavy, time.Second}}, nil},
		"it becomes busy":                   {[]phase{{light, time.Second}, {heavy, 2 * loadInterval}}, []bool{true, false}},
		"it becomes quiet":                  {[]phase{{heavy, time.Second}, {light, time.Second}}, []bool{true}},
		"it is quiet for a moment":          {[]phase{{heavy, time.Second}, {light, quietFor / 2}, {heavy, time.Second}, {light, quietFor / 2}}, nil},
		"it is neither, after it was busy":  {[]phase{{heavy, time.Second}, {medium, time.Second}}, nil},
		"it is neither, after it was quiet": {[]phase{{light, time.Second}, {medium, time.Second}}, []bool{true}},
		"garbage is collected":              {[]phase{{light, time.Second}, {collecting, loadInterval}, {light, time.Second}}, []bool{true}},
	} {
		var p processors
		var got []bool
		for _, phase := range test.phases {
			for range phase.lasts / loadInterval {
				if p.observe(phase.load, loadInterval) {
					got = append(got, p.single)
				}
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: single became %v, want %v", name, got, test.want)
		}
	}
}

// TestProcessorsAreGivenBack when the orchestrator ends.
func TestProcessorsAreGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*quietFor)
		defer cancel()
		var limits []bool
		idle := func() time.Duration { return 0 }
		adaptProcessors(ctx, idle, func(single bool) { limits = append(limits, single) })
		if want := []bool{true, false}; !slices.Equal(limits, want) {
			t.Errorf("single became %v, want %v", limits, want)
		}
	})
}

// TestProcessorTimePasses while this process computes.
func TestProcessorTimePasses(t *testing.T) {
	t.Parallel()
	for before := processorTime(); processorTime() == before; {
		runtime.Gosched()
	}
}
