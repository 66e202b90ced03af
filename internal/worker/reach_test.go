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
	r := reach{tell: func(has bool) { told = append(told, has) }}
	r.opened()
	begun := time.Unix(1_800_000_000, 0)
	for _, step := range []struct {
		after time.Duration
		say   bool
	}{
		{0, false}, {unreachedAfter - 1, false}, {unreachedAfter, true}, {unreachedAfter + 1, false},
		{unreachedAfter + unreachedAgain - 1, false}, {unreachedAfter + unreachedAgain, true},
	} {
		if say := r.failed(begun.Add(step.after)); say != step.say {
			t.Errorf("after %s it was said: %t", step.after, say)
		}
	}
	if !r.opened() {
		t.Error("the end of failures that were told of is not worth saying")
	}
	if r.failed(begun) || r.opened() {
		t.Error("a single failure, or its end, was said")
	}
	if want := []bool{true, false, true}; !slices.Equal(told, want) {
		t.Errorf("that there is an orchestrator was told as %v, want %v", told, want)
	}
}
