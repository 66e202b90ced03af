package drill

import (
	"slices"
	"testing"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	seen := StepCounts{Claim: 3, Answer: 2, End: 3}
	all := Plan(seen, 0)
	// Each step before and after with three victims, and after it with Redis.
	if want := seen.Total() * 7; len(all) != want {
		t.Errorf("there are %d faults, not %d", len(all), want)
	}
	for i, f := range all {
		if slices.Contains(all[:i], f) {
			t.Errorf("%v comes twice", f)
		}
		if n := f.Moment.N; n < 1 || n > seen[f.Moment.Step] || f.Victim == Redis && !f.Moment.After {
			t.Errorf("there is %v", f)
		}
	}
	few := Plan(seen, 6)
	if !slices.Equal(few, all[:6]) {
		t.Errorf("a few are %v", few)
	}
	var victims, steps []int
	for _, f := range few {
		victims, steps = append(victims, int(f.Victim)), append(steps, int(f.Moment.Step))
	}
	slices.Sort(victims)
	slices.Sort(steps)
	if len(slices.Compact(victims)) != 4 || len(slices.Compact(steps)) != 3 {
		t.Errorf("a few are alike: %v", few)
	}
	times := map[int]int{}
	for _, f := range Plan(StepCounts{Answer: 100}, 7) {
		times[f.Moment.N]++
	}
	if len(times) < 4 {
		t.Errorf("a few faults at one step are at these of its 100 times only: %v", times)
	}
	if none := Plan(StepCounts{}, 5); len(none) != 0 {
		t.Errorf("of nothing there is %v", none)
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	if got, want := bisectionOrder(7), []int{4, 2, 6, 1, 3, 5, 7}; !slices.Equal(got, want) {
		t.Errorf("7 are spread as %v, not %v", got, want)
	}
}
