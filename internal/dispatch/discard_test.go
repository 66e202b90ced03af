package dispatch

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestDiscard: unread hints are removed, so that they count no more. Hints that were read instead
// of ones that another consumer read meanwhile are returned.
func TestDiscard(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		if _, err := bus.Discard(t.Context(), pool, "o", nil); err != nil {
			t.Fatal(err)
		}
		hints := some(5, 1)
		announce(t, bus, hints[:4])
		unread, err := bus.Unread(t.Context(), pool, 3)
		if err != nil {
			t.Fatal(err)
		}
		read := pull(t, bus, "w", 1, 0)
		others, err := bus.Discard(t.Context(), pool, "o", unread)
		if err != nil || !slices.Equal(hintsOf(others), hints[3:4]) {
			t.Errorf("read in their place were %v, %v; want the last", others, err)
		}
		wantBacklog(t, bus, 2) // that of w, and the last
		finish(t, bus, append(read, others...))
		announce(t, bus, hints[4:])
		groups, err := client.XInfoGroups(t.Context(), bus.keys.base+":ready:"+pool).Result()
		if err != nil || len(groups) != 1 {
			t.Fatalf("the groups are %v, %v", groups, err)
		}
		if g := groups[0]; g.EntriesRead > 0 && g.Lag != 1 { // the embedded one counts neither
			t.Errorf("the lag is %d, want 1", g.Lag)
		}
	})
}
