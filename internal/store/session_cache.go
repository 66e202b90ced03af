package store

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coppice-run/coppice/internal/tree"
)

// cachedSession is a session of a batch, with as much of it as is cached.
type cachedSession struct {
	state     cacheState
	view      *tree.View
	fairTag   int64                // of its last ready run
	unlisted  map[tree.TaskID]bool // its ready runs that have no row of ready
	row       *storedSession       // nil: it has no row
	newRow    *storedSession       // the row that the batch writes; nil: unchanged
	taskCount int                  // tasks in the view, as of the last commit
	changedAt time.Time            // the last change
}

// cacheState says whether the cached state of a session can be relied on. Sessions that are not
// valid are read before commands are decided on them, except those that are presumed new.
type cacheState uint8

const (
	cacheAbsent      cacheState = iota // nothing is cached
	cachePresumedNew                   // nothing is cached, and the session should not exist: its id was generated for it
	cacheValid                         // as stored; where other replicas write too, the commit compares the version
	cacheContended                     // as stored when it was read; another replica had changed it, and may do so again
	cacheDirty                         // has changes that were not stored; used only for predictions
)

// storedSession is a session as its row has it.
type storedSession struct {
	tree.Session
	sessionExtras
}

func (s *storedSession) columns(to []any) []any {
	return appendSessionRow(to, &s.Session, &s.sessionExtras)
}

// loadRow takes in a session's row. The cached view stays if it is not dirty and has the row's
// version.
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

// nextRow gives the row to write. Each commit that changes anything of the session gives it a new
// version.
func (s *cachedSession) nextRow(version int64) *storedSession {
	now := s.view.Session()
	s.newRow = &storedSession{*now, sessionExtras{maxRunning: now.Cap(), fairTag: s.fairTag, unlisted: len(s.unlisted) > 0, version: version}}
	return s.newRow
}

// madeRoom reports whether the changes let one more waiting run of the session start: a run has
// left its worker, or the cap has risen.
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

// sessionCache keeps the sessions of the last commits, so that they need not be read again. Where
// nobody else writes to the database its entries are right. Elsewhere their versions are compared
// when the sessions are locked. Only the committer uses it.
type sessionCache struct {
	sessions  *simplelru.LRU[tree.SessionID, *cachedSession]
	taskCount int // of all sessions
	maxTasks  int
}

// Limits of the caches of all committers together. The rest of a session takes about as much memory
// as a few tasks.
const (
	maxCachedSessions = 2_000
	maxCachedTasks    = 20_000
)

// sessionCacheTTL is about how long a session stays cached without a change. To read it again takes
// a round trip, which matters only for sessions that change often.
const sessionCacheTTL = 2 * time.Second

// newSessionCache makes the cache of one committer; committers is how many there are.
func newSessionCache(committers int) *sessionCache {
	c := &sessionCache{maxTasks: maxCachedTasks / committers}
	forgotten := func(_ tree.SessionID, s *cachedSession) { c.taskCount -= s.taskCount }
	c.sessions, _ = simplelru.NewLRU(max(1, maxCachedSessions/committers), forgotten) // it fails for a size of 0
	return c
}

// get gives a session; nil if it is not cached.
func (c *sessionCache) get(id tree.SessionID) *cachedSession {
	s, _ := c.sessions.Get(id)
	return s
}

func (c *sessionCache) remove(id tree.SessionID) { c.sessions.Remove(id) }

// put keeps a session whose changes have just been committed.
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

// evictIdle removes the sessions without a recent change.
func (c *sessionCache) evictIdle() {
	for {
		id, oldest, some := c.sessions.GetOldest()
		if !some || time.Since(oldest.changedAt) < sessionCacheTTL {
			return
		}
		c.remove(id)
	}
}

// dropSession removes a session that does not exist any more from the cache and the batch.
func (b *batch) dropSession(id tree.SessionID) {
	b.sessionCache.remove(id)
	if s := b.sessions[id]; s != nil {
		*s = cachedSession{view: tree.NewView(nil)}
	}
}

// discardSessions removes the sessions of a failed batch from the cache: they have changes that
// were not stored. Its slots stand by again.
func (b *batch) discardSessions() {
	if b == nil {
		return
	}
	for _, id := range b.order {
		b.sessionCache.remove(id)
	}
	b.returnSlots()
}

// markSessionsDirty is discardSessions for a batch that is made again after errChanged. The
// sessions stay cached for predictions.
func (b *batch) markSessionsDirty() {
	for _, id := range b.order {
		b.sessions[id].state = cacheDirty
	}
	b.returnSlots()
}
