package sandbox

import (
	"os/exec"
	"testing"
)

// BenchmarkTrue is what it costs to run the smallest program: with all that confines
// it, and without.
func BenchmarkTrue(b *testing.B) {
	b.Run("free", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, mode := range []Mode{Off, Required} {
		b.Run(string(mode), func(b *testing.B) {
			dir := b.TempDir()
			s, err := New(Config{Mode: mode})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				p, err := s.Start(b.Context(), Command{Argv: []string{"true"}, Dir: dir})
				if err == nil {
					err = p.Wait()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
