package model

import "testing"

func TestWindow(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"": DefaultWindow, "nobody's": DefaultWindow, "gpt-4o-mini": 128_000, "claude-x": 200_000} {
		if got := Window(name); got != want {
			t.Errorf("the window of %q is %d, want %d", name, got, want)
		}
		if got := CompactAt(name); got != want*compactShare/100 {
			t.Errorf("%q is summed up at %d", name, got)
		}
	}
}
