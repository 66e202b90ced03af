package dispatch

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/redistest"
)

// BenchmarkAnnouncePull announces hints in batches, and pulls and finishes them with one consumer.
// One operation is one hint.
func BenchmarkAnnouncePull(b *testing.B) {
	for name, client := range map[string]func(b *testing.B) *redis.Client{
		"embedded": func(b *testing.B) *redis.Client { return embedded(b).Client() },
		"redis":    func(b *testing.B) *redis.Client { return redistest.Start(b).Client() },
	} {
		b.Run(name, func(b *testing.B) {
			const batch = 64
			bus := newBus(b, client(b))
			hints := some(batch, 1)
			b.ReportAllocs()
			for left := b.N; left > 0; left -= batch {
				announce(b, bus, hints[:min(left, batch)])
				for want := min(left, batch); want > 0; {
					found := pull(b, bus, "w", want, time.Minute)
					finish(b, bus, found)
					want -= len(found)
				}
			}
		})
	}
}
