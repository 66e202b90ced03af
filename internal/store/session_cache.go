package store

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coppice-run/coppice/internal/tree"
)

// cachedSession is a cachedSession that a batch is about, with as much of it as is held.
type cachedSession struct {
	state     cacheState
	view      *tree.View
	fairTag   int64          // of its last ready run
	row       *storedSession // nil: there is none
	newRow    *storedSession // what the row is with the batch; nil: as before
	taskCount int            // how many tasks are held, as of the last commit
	changedAt time.Time      // when something has last happened in it
}

// cacheState is what a session is good for as it is held. What is not trusted is read before it is
// decided upon, but for what is supposed to be novel.
type cacheState uint8

const (
	cacheAbsent      cacheState = iota // nothing is held of it
	cachePresumedNew                   // nor is it there, since its id was made for it
	cacheValid                         // it is as it was stored; where others write too, the commit looks that it still is
	cacheContended                     // so it was, but when it was read another replica had changed it, and may again
	cacheDirty                         // it has changes that were not stored: only guesses are made upon it
)

// storedSession is a session as its row is.
type storedSession struct {
	tree.Session
	sessionExtras
}

func (s *storedSession) columns(to []any) []any {
	return appendSessionRow(to, &s.Session, &s.sessionExtras)
}

// loadRow takes in a session's row. What is held of it stays if it is still so.
func (s *cachedSession) loadRow(row *tree.Session, extras sessionExtras) {
	state := cacheValid
	if s.row != nil {
		if s.state != cacheDirty && s.row.version == extras.version {
			s.state = cacheValid
			return
		}
		state = cacheContended
	}
	*s = cachedSession{state: state, view: tree.NewView(row), fairTag: extras.fairTag, row: &storedSession{*row, extras}, taskCount: s.taskCount}
}

// nextRow gives what the row is once everything of the session is stored. Each commit that changes
// anything of it gives it another version.
func (s *cachedSession) nextRow(version int64) *storedSession {
	now := s.view.Session()
	s.newRow = &storedSession{*now, sessionExtras{maxRunning: now.Cap(), fairTag: s.fairTag, version: version}}
	return s.newRow
}

// madeRoom reports whether a run has left its worker, or the session may run more at once, while
// others of it wait for a worker.
func (s *cachedSession) madeRoom(changes *tree.Changes) bool {
	now := s.view.Session()
	if now.Pending == 0 {
		return false
	}
	for _, a := range changes.Attempts {
		if a == nil {
			return true
		}
	}
	return s.row != nil && now.Cap() > s.row.maxRunning
}

// sessionCache holds the sessions of the last commits as these left them, so that they need not
// be read again. Where nobody else writes to the database they are right; elsewhere the
// version says so, when they are locked. Only the committer looks at it.
type sessionCache struct {
	sessions  *simplelru.LRU[tree.SessionID, *cachedSession]
	taskCount int // of all of them
	maxTasks  int
}

// What stores hold, all committers together. What sessions hold beside their tasks is as
// much as a few tasks.
const (
	maxCachedSessions = 2_000
	maxCachedTasks    = 20_000
)

// sessionCacheTTL is about how long a session is held that nothing happens in: reading it again
// takes a round trip, which only what happens often would notice.
const sessionCacheTTL = 2 * time.Second

// newSessionCache is for one of so many committers.
func newSessionCache(committers int) *sessionCache {
	c := &sessionCache{maxTasks: maxCachedTasks / committers}
	forgotten := func(_ tree.SessionID, s *cachedSession) { c.taskCount -= s.taskCount }
	c.sessions, _ = simplelru.NewLRU(max(1, maxCachedSessions/committers), forgotten) // it fails for a size of 0
	return c
}

// get gives a session if it is held, and otherwise nil.
func (c *sessionCache) get(id tree.SessionID) *cachedSession {
	s, _ := c.sessions.Get(id)
	return s
}

func (c *sessionCache) remove(id tree.SessionID) { c.sessions.Remove(id) }

// put takes in a session whose changes have just been committed.
func (c *sessionCache) put(id tree.SessionID, s *cachedSession) {
	s.view.MarkCommitted()
	c.remove(id)
	if s.view.Session() == nil {
		return
	}
	if s.newRow != nil {
		s.row, s.newRow = s.newRow, nil
	}
	if s.state != cacheContended {
		s.state = cacheValid
	}
	s.taskCount, s.changedAt = s.view.Size(), time.Now()
	c.taskCount += s.taskCount
	c.sessions.Add(id, s)
	for c.taskCount > c.maxTasks {
		c.sessions.RemoveOldest()
	}
}

// evictIdle forgets the sessions in which nothing has happened for a while.
func (c *sessionCache) evictIdle() {
	for {
		id, oldest, some := c.sessions.GetOldest()
		if !some || time.Since(oldest.changedAt) < sessionCacheTTL {
			return
		}
		c.remove(id)
	}
}

// dropSession says that nothing of a session is there any more.
func (b *batch) dropSession(id tree.SessionID) {
	b.sessionCache.remove(id)
	if s := b.sessions[id]; s != nil {
		*s = cachedSession{view: tree.NewView(nil)}
	}
}

// discardSessions forgets the sessions of a batch, since it has changed what is held of them and was
// not stored.
func (b *batch) discardSessions() {
	if b == nil {
		return
	}
	for _, id := range b.order {
		b.sessionCache.remove(id)
	}
	b.returnSlots()
}

// markSessionsDirty is spoil after somebody else has changed one of the sessions: they are kept for
// guesses.
func (b *batch) markSessionsDirty() {
	for _, id := range b.order {
		b.sessions[id].state = cacheDirty
	}
	b.returnSlots()
}

// dbClock is what the time is and how far turns have come, as the database has said.
type dbClock struct {
	dbTime      time.Time // there
	localTime   time.Time // here, by the monotonic clock, when the answer came that said so
	updatedAt   time.Time // here, when the last answer came
	virtualTime int64
}

func (p *dbClock) isSet() bool { return !p.localTime.IsZero() }

// isFresh reports whether it was heard of so isFresh that it can be gone on from.
func (p *dbClock) isFresh() bool { return time.Since(p.updatedAt) < clockFreshFor }

const (
	// clockFreshFor is how long what was heard of the present is gone on from. Clocks do not
	// drift in that time, and a session that was idle gains no more than it on the others.
	clockFreshFor = 100 * time.Millisecond
	// clockSampleFor is how long a faster answer says more about the clock than a later one.
	clockSampleFor = time.Minute
)

// update takes in an answer that has just come. The time that it tells is past by the time
// that it took to come: of a few answers the latest time is the one that came fastest.
func (p *dbClock) update(there time.Time, here time.Time) {
	p.updatedAt = here
	if !p.isSet() || there.After(p.at(here)) || here.Sub(p.localTime) > clockSampleFor {
		p.dbTime, p.localTime = there, here
	}
}

// at is what the time is there at a time here, or was a moment before.
func (p *dbClock) at(here time.Time) time.Time {
	return p.dbTime.Add(here.Sub(p.localTime).Truncate(time.Microsecond))
}

// refreshClock looks the present up if it has not been heard of for a while.
func (b *batch) refreshClock() lookup {
	if b.dbClock.isFresh() {
		return lookup{name: "present"}
	}
	return b.clockLookup()
}

// clockLookup looks up what the time is, and how far turns have come.
func (b *batch) clockLookup() lookup {
	return lookup{"present", [][]any{{b.clock()}}, func(row row) error {
		var there time.Time
		err := row.Scan(timeColumn{&there}, &b.dbClock.virtualTime)
		b.dbClock.update(there, time.Now())
		return err
	}}
}

// dbNow is what the time is in the database, as far as can be told without asking: not
// ahead of it.
func (b *batch) dbNow() time.Time {
	if b.Clock != nil {
		return b.Clock().UTC().Truncate(time.Microsecond)
	}
	return b.dbClock.at(time.Now())
}

// sessionNow is what the time is for a session: not before anything that has happened in it,
// since any clock may be set back.
func (b *batch) sessionNow(v *tree.View) time.Time {
	if s := v.Session(); s != nil && s.UpdatedAt.After(b.now) {
		return s.UpdatedAt
	}
	return b.now
}

// advanceVirtualTime notes how far turns have come, and gives how far they have as far as any
// committer knows: what is offered here is known at once.
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
