package storetest

import (
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// announcedOnCommit lists the sessions whose runs were announced with their commit.
func (b *bundle) announcedOnCommit() (found []tree.SessionID) {
	for _, c := range b.committed() {
		for _, r := range c.Ready {
			if r.AnnouncedOnCommit {
				found = append(found, r.Session)
			}
		}
	}
	return found
}

// readyAhead: while no run waits, as many runs as there is room for count as announced with the
// commit that makes them ready. No run is passed over for them, and a run whose hint was never
// published is picked again.
func readyAhead(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.AnnounceOnCommit = true
	b := d.opened(t, c)
	b.run()
	b.create(1, "hello")
	eq(t, "whether the first may be waiting", b.MayHaveQueuedRuns(), true)
	eq(t, "how many are announced before anybody has looked", len(b.announcedOnCommit()), 0)
	eq(t, "how many wait", len(b.take(3)), 1)
	eq(t, "how many wait then", len(b.take(3)), 0) // one of three places is taken
	second := b.create(2, "hello")
	b.create(3, "hello")
	eq(t, "whether one may be waiting", b.MayHaveQueuedRuns(), false)
	b.create(4, "hello") // there is no room
	eq(t, "whether one is waiting", b.MayHaveQueuedRuns(), true)
	b.claim(session(2), second)
	b.create(5, "hello") // it would go before the fourth
	same(t, "what was announced with its commit", b.announcedOnCommit(), session(2), session(3))
	same(t, "what is taken", sessions(b.take(3)), session(4))
	b.clock.advance(2 * lease)
	again := sessions(b.take(10))
	slices.SortFunc(again, func(a, b tree.SessionID) int { return slices.Compare(a[:], b[:]) })
	same(t, "what comes again", again, session(1), session(3), session(4), session(5))
}

func same(t *testing.T, what string, got []tree.SessionID, want ...tree.SessionID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s is %v, not %v", what, got, want)
	}
}

// readyAheadCaps: under caps only the picker announces.
func readyAheadCaps(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.AnnounceOnCommit, c.Caps = true, store.Caps{All: 10}
	b := d.opened(t, c)
	b.run()
	eq(t, "how many wait", len(b.take(3)), 0)
	b.create(1, "hello")
	eq(t, "how many are announced with their commit", len(b.announcedOnCommit()), 0)
	eq(t, "how many wait", len(b.take(3)), 1)
}

func sessions(taken []store.Ready) (found []tree.SessionID) {
	for _, r := range taken {
		found = append(found, r.Session)
	}
	return found
}
