package storetest

import (
	"testing"

	"github.com/coppice-run/coppice/internal/store"
)

// work: runs that wait for others to end do not count as runs that wait for a worker, nor does
// their age.
func work(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.spread(1, 10, 3)
	older := must[*store.Work](t)(b.Work(t.Context())).Oldest
	for _, r := range b.take(100) {
		b.claim(r.Session, r.Task)
	}
	b.holds(store.Work{Held: 7, Running: 3})
	b.clock.advance(lease)
	b.spread(2, 1, 3)
	younger := must[*store.Work](t)(b.Work(t.Context())).Oldest
	eq(t, "whether that waits since later which could run", younger.After(older), true)
	b.holds(store.Work{Ready: 1, Held: 7, Running: 3, Oldest: younger, Waits: b.clock.Now().Sub(younger)})
}

// workUnderCaps: nor do runs that wait for others of their tenant, or of the installation.
func workUnderCaps(t *testing.T, d Dialect) {
	b := capped(t, d)
	work := must[*store.Work](t)(b.Work(t.Context()))
	b.holds(store.Work{Ready: 6, Held: 24, Oldest: work.Oldest, Waits: work.Waits})
	taken := b.take(100)
	b.holds(store.Work{Ready: 6, Held: 24, Oldest: work.Oldest, Waits: work.Waits}) // no worker has them
	for _, r := range taken {
		b.claim(r.Session, r.Task)
	}
	b.holds(store.Work{Held: 24, Running: 6})
}

// holds compares the counts of work.
func (b *bundle) holds(want store.Work) {
	b.t.Helper()
	eq(b.t, "what there is to do", *must[*store.Work](b.t)(b.Work(b.t.Context())), want)
}
