package worker

import (
	"slices"
	"testing"
	"time"
)

// TestFailuresAreSaid once they have lasted, again after a while, and so is their end.
func TestFailuresAreSaid(t *testing.T) {
	t.Parallel()
	var told []bool
	r := reachability{notify: func(has bool) { told = append(told, has) }}
	r.recordSuccess()
	begun := time.Unix(1_800_000_000, 0)
	for _, step := range []struct {
		after time.Duration
		say   bool
	}{
		{0, false}, {unreachableAfter - 1, false}, {unreachableAfter, true}, {unreachableAfter + 1, false},
		{unreachableAfter + unreachableAgain - 1, false}, {unreachableAfter + unreachableAgain, true},
	} {
		if say := r.recordFailure(begun.Add(step.after)); say != step.say {
			t.Errorf("after %s it was said: %t", step.after, say)
		}
	}
	if !r.recordSuccess() {
		t.Error("the end of failures that were told of is not worth saying")
	}
	if r.recordFailure(begun) || r.recordSuccess() {
		t.Error("a single failure, or its end, was said")
	}
	if want := []bool{true, false, true}; !slices.Equal(told, want) {
		t.Errorf("that there is an orchestrator was told as %v, want %v", told, want)
	}
}
