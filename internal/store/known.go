package store

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coppice-run/coppice/internal/tree"
)

// session is a session that a batch is about, with as much of it as is held.
type session struct {
	trust   trust
	view    *tree.View
	fairTag int64            // of its last ready run
	row     *sessionAsStored // nil: there is none
	written *sessionAsStored // what the row is with the batch; nil: as before
	size    int              // how many tasks are held, as of the last commit
	kept    time.Time        // when something has last happened in it
}

// trust is what a session is good for as it is held. What is not trusted is read before it is
// decided upon, but for what is supposed to be novel.
type trust uint8

const (
	absent  trust = iota // nothing is held of it
	novel                // nor is it there, since its id was made for it
	trusted              // it is as it was stored; where others write too, the commit looks that it still is
	shared               // so it was, but when it was read another replica had changed it, and may again
	spoiled              // it has changes that were not stored: only guesses are made upon it
)

// sessionAsStored is a session as its row is.
type sessionAsStored struct {
	tree.Session
	beside
}

func (s *sessionAsStored) columns(to []any) []any { return appendSessionRow(to, &s.Session, &s.beside) }

// read takes in a session's row. What is held of it stays if it is still so.
func (s *session) read(row *tree.Session, beside beside) {
	trust := trusted
	if s.row != nil {
		if s.trust != spoiled && s.row.version == beside.version {
			s.trust = trusted
			return
		}
		trust = shared
	}
	*s = session{trust: trust, view: tree.NewView(row), fairTag: beside.fairTag, row: &sessionAsStored{*row, beside}, size: s.size}
}

// write gives what the row is once everything of the session is stored. Each commit that changes
// anything of it gives it another version.
func (s *session) write(version int64) *sessionAsStored {
	now := s.view.Session()
	s.written = &sessionAsStored{*now, beside{maxRunning: now.Cap(), fairTag: s.fairTag, version: version}}
	return s.written
}

// madeRoom reports whether a run has left its worker, or the session may run more at once, while
// others of it wait for a worker.
func (s *session) madeRoom(changes *tree.Changes) bool {
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

// known holds the sessions of the last commits as these left them, so that they need not
// be read again. Where nobody else writes to the database they are right; elsewhere the
// version says so, when they are locked. Only the committer looks at it.
type known struct {
	sessions *simplelru.LRU[tree.SessionID, *session]
	tasks    int // of all of them
	most     int
}

// What stores hold, all committers together. What sessions hold beside their tasks is as
// much as a few tasks.
const (
	knownSessions = 2_000
	knownTasks    = 20_000
)

// knownFor is about how long a session is held that nothing happens in: reading it again
// takes a round trip, which only what happens often would notice.
const knownFor = 2 * time.Second

// newKnown is for one of so many committers.
func newKnown(committers int) *known {
	k := &known{most: knownTasks / committers}
	forgotten := func(_ tree.SessionID, s *session) { k.tasks -= s.size }
	k.sessions, _ = simplelru.NewLRU(max(1, knownSessions/committers), forgotten) // it fails for a size of 0
	return k
}

// of gives a session if it is held, and otherwise nil.
func (k *known) of(id tree.SessionID) *session {
	s, _ := k.sessions.Get(id)
	return s
}

func (k *known) forget(id tree.SessionID) { k.sessions.Remove(id) }

// keep takes in a session whose changes have just been committed.
func (k *known) keep(id tree.SessionID, s *session) {
	s.view.Committed()
	k.forget(id)
	if s.view.Session() == nil {
		return
	}
	if s.written != nil {
		s.row, s.written = s.written, nil
	}
	if s.trust != shared {
		s.trust = trusted
	}
	s.size, s.kept = s.view.Size(), time.Now()
	k.tasks += s.size
	k.sessions.Add(id, s)
	for k.tasks > k.most {
		k.sessions.RemoveOldest()
	}
}

// forgetIdle forgets the sessions in which nothing has happened for a while.
func (k *known) forgetIdle() {
	for {
		id, oldest, some := k.sessions.GetOldest()
		if !some || time.Since(oldest.kept) < knownFor {
			return
		}
		k.forget(id)
	}
}

// gone says that nothing of a session is there any more.
func (b *batch) gone(id tree.SessionID) {
	b.known.forget(id)
	if s := b.sessions[id]; s != nil {
		*s = session{view: tree.NewView(nil)}
	}
}

// spoil forgets the sessions of a batch, since it has changed what is held of them and was
// not stored.
func (b *batch) spoil() {
	if b == nil {
		return
	}
	for _, id := range b.order {
		b.known.forget(id)
	}
	b.takeBack()
}

// contest is spoil after somebody else has changed one of the sessions: they are kept for
// guesses.
func (b *batch) contest() {
	for _, id := range b.order {
		b.sessions[id].trust = spoiled
	}
	b.takeBack()
}

// present is what the time is and how far turns have come, as the database has said.
type present struct {
	now     time.Time // there
	heard   time.Time // here, by the monotonic clock, when the answer came that said so
	asked   time.Time // here, when the last answer came
	fairNow int64
}

func (p *present) known() bool { return !p.heard.IsZero() }

// lately reports whether it was heard of so lately that it can be gone on from.
func (p *present) lately() bool { return time.Since(p.asked) < presentFor }

const (
	// presentFor is how long what was heard of the present is gone on from. Clocks do not
	// drift in that time, and a session that was idle gains no more than it on the others.
	presentFor = 100 * time.Millisecond
	// clockFor is how long a faster answer says more about the clock than a later one.
	clockFor = time.Minute
)

// hear takes in an answer that has just come. The time that it tells is past by the time
// that it took to come: of a few answers the latest time is the one that came fastest.
func (p *present) hear(there time.Time, here time.Time) {
	p.asked = here
	if !p.known() || there.After(p.at(here)) || here.Sub(p.heard) > clockFor {
		p.now, p.heard = there, here
	}
}

// at is what the time is there at a time here, or was a moment before.
func (p *present) at(here time.Time) time.Time {
	return p.now.Add(here.Sub(p.heard).Truncate(time.Microsecond))
}

// refreshPresent looks the present up if it has not been heard of for a while.
func (b *batch) refreshPresent() lookup {
	if b.present.lately() {
		return lookup{name: "present"}
	}
	return b.askPresent()
}

// askPresent looks up what the time is, and how far turns have come.
func (b *batch) askPresent() lookup {
	return lookup{"present", [][]any{{b.clock()}}, func(row row) error {
		var there time.Time
		err := row.Scan(timeColumn{&there}, &b.present.fairNow)
		b.present.hear(there, time.Now())
		return err
	}}
}

// timeThere is what the time is in the database, as far as can be told without asking: not
// ahead of it.
func (b *batch) timeThere() time.Time {
	if b.Clock != nil {
		return b.Clock().UTC().Truncate(time.Microsecond)
	}
	return b.present.at(time.Now())
}

// timeIn is what the time is for a session: not before anything that has happened in it,
// since any clock may be set back.
func (b *batch) timeIn(v *tree.View) time.Time {
	if s := v.Session(); s != nil && s.UpdatedAt.After(b.now) {
		return s.UpdatedAt
	}
	return b.now
}

// turnsCame notes how far turns have come, and gives how far they have as far as any
// committer knows: what is offered here is known at once.
func (s *Store) turnsCame(to int64) int64 {
	for {
		known := s.turn.Load()
		if to <= known {
			return known
		}
		if s.turn.CompareAndSwap(known, to) {
			return to
		}
	}
}
