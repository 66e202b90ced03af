package cli

import (
	"slices"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestABrokenStreamIsToldOf once, if it does not go on at once.
func TestABrokenStreamIsToldOf(t *testing.T) {
	t.Parallel()
	p := &plain{}
	var told []bool
	for range tellLost + 1 {
		told = append(told, p.broke())
	}
	if err := p.step(&pb.WatchSessionResponse{}); err != nil { // it goes on
		t.Fatal(err)
	}
	told = append(told, p.broke())
	if want := []bool{false, true, false, false}; !slices.Equal(told, want) {
		t.Errorf("it was told of: %t, want %t", told, want)
	}
}
