package cli

import (
	"slices"
	"testing"
)

// TestABrokenStreamIsToldOf once, if it does not go on at once, and so is that it goes on then.
func TestABrokenStreamIsToldOf(t *testing.T) {
	t.Parallel()
	p := &plain{}
	var told []bool
	for range tellLost + 1 {
		told = append(told, p.broke())
	}
	told = append(told, p.stood(), p.broke(), p.stood())
	if want := []bool{false, true, false, true, false, false}; !slices.Equal(told, want) {
		t.Errorf("it was told of: %t, want %t", told, want)
	}
}
