package cli

import (
	"slices"
	"testing"
)

// TestABrokenStreamIsToldOf once, if it does not go on at once, and so is that it goes on then.
func TestABrokenStreamIsToldOf(t *testing.T) {
	t.Parallel()
	p := &plainView{}
	var told []bool
	for range reportLostAfter + 1 {
		told = append(told, p.connectionLost())
	}
	told = append(told, p.connectionBack(), p.connectionLost(), p.connectionBack())
	if want := []bool{false, true, false, true, false, false}; !slices.Equal(told, want) {
		t.Errorf("it was told of: %t, want %t", told, want)
	}
}
