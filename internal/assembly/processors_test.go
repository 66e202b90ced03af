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

// TestAdapting: this process gets one processor, and all back at the end, unless the operator has
// chosen a number. It is not parallel, because other tests need the processors.
func TestAdapting(t *testing.T) {
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	for chosen, want := range map[string]int{"": 1, "3": 3} {
		t.Setenv("GOMAXPROCS", chosen)
		synctest.Test(t, func(t *testing.T) {
			runtime.GOMAXPROCS(3)
			stop := startAdapting(t.Context())
			time.Sleep(2 * quietFor)
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("with GOMAXPROCS=%q there are %d processors, want %d", chosen, got, want)
			}
			stop()
			if got := runtime.GOMAXPROCS(0); chosen == "" && got != all {
				t.Errorf("in the end there are %d processors of %d", got, all)
			}
		})
	}
	runtime.SetDefaultGOMAXPROCS()
}

// TestProcessorTimePasses while this process computes.
func TestProcessorTimePasses(t *testing.T) {
	t.Parallel()
	for before := processorTime(); processorTime() == before; {
		runtime.Gosched()
	}
}
