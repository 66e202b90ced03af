package hook

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEnds holds the ends of writes of any size against what they are of.
func TestEnds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		half := 1 + rng.IntN(20)
		e := newHeadTail(2 * half)
		var all strings.Builder
		for range rng.IntN(12) {
			piece := ""
			for range rng.IntN(3 * half) {
				piece += string(rune('a' + rng.IntN(26)))
			}
			all.WriteString(piece)
			if n, err := e.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatalf("wrote %d of %d, %v", n, len(piece), err)
			}
		}
		want := all.String()
		if cut := len(want) - 2*half; cut > 0 {
			want = fmt.Sprintf("%s\n[%d bytes left out]\n%s", want[:half], cut, want[len(want)-half:])
		}
		if e.String() != want {
			t.Fatalf("seed %d: got %q, want %q", seed, e.String(), want)
		}
	}
}
