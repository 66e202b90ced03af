package store

import (
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// dbClock estimates the database's clock, and keeps the virtual time of the fair queue, from the
// database's last answers.
type dbClock struct {
	dbTime      time.Time // the database's time
	localTime   time.Time // the local time, by the monotonic clock, at which that answer arrived
	updatedAt   time.Time // the local time of the last answer
	virtualTime int64
}

func (p *dbClock) isSet() bool { return !p.localTime.IsZero() }

// isFresh reports whether the last answer is recent enough to rely on.
func (p *dbClock) isFresh() bool { return time.Since(p.updatedAt) < clockFreshFor }

const (
	// clockFreshFor is how long an answer can be relied on. Clocks do not drift noticeably in that
	// time, and a session that was idle gains no more than that on the others.
	clockFreshFor = 100 * time.Millisecond
	// clockSampleFor is how long a faster answer says more about the clock than a later one.
	clockSampleFor = time.Minute
)

// update takes in an answer that has just arrived. Its time is old by the time that the answer
// took. Of several answers, the one that gives the latest time was the fastest, so it is kept.
func (p *dbClock) update(there time.Time, here time.Time) {
	p.updatedAt = here
	if !p.isSet() || there.After(p.at(here)) || here.Sub(p.localTime) > clockSampleFor {
		p.dbTime, p.localTime = there, here
	}
}

// at estimates the database's time at a local time. The estimate is never ahead of it.
func (p *dbClock) at(here time.Time) time.Time {
	return p.dbTime.Add(here.Sub(p.localTime).Truncate(time.Microsecond))
}

// refreshClock looks up the time if the clock is not fresh; otherwise the lookup is empty.
func (b *batch) refreshClock() lookup {
	if b.dbClock.isFresh() {
		return lookup{name: "present"}
	}
	return b.clockLookup()
}

// clockLookup looks up the time and the virtual time.
func (b *batch) clockLookup() lookup {
	return lookup{"present", [][]any{{b.clock()}}, func(row row) error {
		var there time.Time
		err := row.Scan(timeColumn{&there}, &b.dbClock.virtualTime)
		b.dbClock.update(there, time.Now())
		return err
	}}
}

// dbNow is the database's time, as far as known without a round trip. It is never ahead of it.
func (b *batch) dbNow() time.Time {
	if b.Clock != nil {
		return b.Clock().UTC().Truncate(time.Microsecond)
	}
	return b.dbClock.at(time.Now())
}

// sessionNow is the time for a decision on a session. Any clock may be set back, but what is decided
// later is never earlier: until the clock has caught up, each decision is later by the smallest step.
func (b *batch) sessionNow(v *tree.View) time.Time {
	if s := v.Session(); s != nil && s.UpdatedAt.After(b.now) {
		return s.UpdatedAt.Add(time.Microsecond)
	}
	return b.now
}

// advanceVirtualTime takes in a virtual time, and gives the latest one that any committer of this
// process knows. So what is announced here counts at once.
func (s *Store) advanceVirtualTime(to int64) int64 {
	for {
		known := s.virtualTime.Load()
		if to <= known {
			return known
		}
		if s.virtualTime.CompareAndSwap(known, to) {
			return to
		}
	}
}
