package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// fairness gives ready runs the tags by which they are offered: start-time fair
// queueing, in which each session's runs are one tag apart and a session that
// was idle starts at the present. It is a hint about order and may be forgotten.
type fairness struct {
	now  int64
	last map[tree.SessionID]int64
}

// forgetAbove is how many sessions are remembered before those whose tags have
// passed are forgotten.
const forgetAbove = 10_000

func newFairness() fairness { return fairness{last: map[tree.SessionID]int64{}} }

func (f *fairness) tag(id tree.SessionID) int64 {
	if len(f.last) > forgetAbove {
		for session, tag := range f.last {
			if tag <= f.now {
				delete(f.last, session)
			}
		}
	}
	tag := max(f.now, f.last[id]) + 1
	f.last[id] = tag
	return tag
}

// served moves the present to the tag of a run that was offered.
func (f *fairness) served(tag int64) { f.now = max(f.now, tag) }

// resumeTurns reads how far the turns had come when the store was last open.
func (s *Store) resumeTurns(ctx context.Context) error {
	var first int64
	err := s.db.load(ctx, "ready_tags", [][]any{{}}, func(rows *sql.Rows) error {
		var id tree.SessionID
		var low, high int64
		if err := rows.Scan(idColumn(&id), &low, &high); err != nil {
			return err
		}
		if len(s.fair.last) == 0 || low < first {
			first = low
		}
		s.fair.last[id] = high
		return nil
	})
	s.fair.served(first - 1)
	return err
}

// heldBack is announced_until of a run whose session may not run more at once. A
// flood of such runs is out of the way of other sessions' runs.
const heldBack = -1

// TakeReady picks runs to be announced: as many as there is room for beside those
// that are announced and not claimed yet. Interactive runs go before background
// ones, then sessions take turns; a session that runs, with what is announced, as
// many tasks as it may is passed over. A run that nobody claims within the lease
// is picked again.
func (s *Store) TakeReady(ctx context.Context, room int, lease time.Duration) ([]Ready, error) {
	// A look that takes no transaction; most of the time there is nothing.
	due, err := one(ctx, s, nil, errors.New("no answer"), "ready_any", func(b *bool) []any { return []any{b} },
		s.Clock().UnixMicro())
	if err != nil || !*due {
		return nil, err
	}
	var taken []Ready
	err = s.write(ctx, func(ctx context.Context) error {
		var err error
		taken, err = s.takeReady(ctx, room, s.Clock(), lease)
		return err
	})
	return taken, err
}

// lookAhead is how many candidates are read for each run that there is room for,
// since some may belong to sessions that run as many as they may.
const lookAhead = 4

// offer is a look at what may be announced.
type offer struct {
	room      int
	announced map[tree.SessionID]int
	taken     []Ready
	marks     [][]any // of the runs taken or held back
}

func (s *Store) takeReady(ctx context.Context, room int, now time.Time, lease time.Duration) ([]Ready, error) {
	o := &offer{room: room, announced: map[tree.SessionID]int{}}
	err := s.db.load(ctx, "ready_announced", [][]any{{now.UnixMicro()}}, func(rows *sql.Rows) error {
		var session tree.SessionID
		var n int
		err := rows.Scan(idColumn(&session), &n)
		o.announced[session] = n
		o.room -= n
		return err
	})
	for more := err == nil; more && len(o.taken) < o.room; {
		var candidates []candidate
		if candidates, err = s.candidates(ctx, o, now); err != nil {
			return nil, err
		}
		more = o.pick(candidates, now.Add(lease))
		if err = s.db.save(ctx, "ready_mark", o.marks...); err != nil {
			return nil, err
		}
		o.marks = nil
	}
	for _, r := range o.taken {
		s.fair.served(r.fairTag)
	}
	return o.taken, err
}

// candidate is a ready run and how many more its session may run, counting none
// of its announcements.
type candidate struct {
	Ready
	free int
}

// candidates reads what may be announced, the next first: as much as is due, and
// of what is held back as much as its sessions may run.
func (s *Store) candidates(ctx context.Context, o *offer, now time.Time) ([]candidate, error) {
	var found []candidate
	scan := func(rows *sql.Rows) error {
		var c candidate
		err := rows.Scan(append(readyRow(&c.Ready), &c.free)...)
		found = append(found, c)
		return err
	}
	if err := s.db.load(ctx, "ready_due", [][]any{{(o.room - len(o.taken)) * lookAhead}}, scan); err != nil {
		return nil, err
	}
	if err := s.db.load(ctx, "ready_expired", [][]any{{now.UnixMicro()}}, scan); err != nil {
		return nil, err
	}
	free := map[tree.SessionID]int{}
	err := s.db.load(ctx, "ready_full", [][]any{{}}, func(rows *sql.Rows) error {
		var session tree.SessionID
		var n int
		err := rows.Scan(idColumn(&session), &n)
		free[session] = n
		return err
	})
	if err != nil {
		return nil, err
	}
	var keys [][]any
	for id, n := range free {
		if n -= o.announced[id]; n > 0 {
			keys = append(keys, []any{idColumn(&id), min(n, o.room-len(o.taken))})
		}
	}
	err = s.db.load(ctx, "ready_held", keys, func(rows *sql.Rows) error {
		var c candidate
		err := rows.Scan(readyRow(&c.Ready)...)
		c.free = free[c.Session]
		found = append(found, c)
		return err
	})
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(a.Priority-b.Priority, cmp.Compare(a.fairTag, b.fairTag), a.At.Compare(b.At))
	})
	return found, err
}

// pick takes the first candidates whose sessions may run more, and holds back
// those whose sessions may not. It reports whether that has made way for others.
func (o *offer) pick(candidates []candidate, until time.Time) (more bool) {
	for _, c := range candidates {
		if len(o.taken) == o.room {
			return false
		}
		r := c.Ready
		switch {
		case o.announced[r.Session] < c.free:
			o.announced[r.Session]++
			r.Again = r.announcedUntil > 0
			o.taken = append(o.taken, r)
			o.mark(&r, until.UnixMicro())
		case r.announcedUntil != heldBack:
			more = true
			o.mark(&r, heldBack)
		}
	}
	return more
}

func (o *offer) mark(r *Ready, until int64) {
	o.marks = append(o.marks, []any{until, idColumn(&r.Session), idColumn(&r.Task), r.Epoch})
}

// ReleaseReady makes a run that was announced due again at once.
func (s *Store) ReleaseReady(ctx context.Context, session tree.SessionID, task tree.TaskID, epoch int64) error {
	return s.write(ctx, func(ctx context.Context) error {
		return s.db.save(ctx, "ready_mark", []any{0, idColumn(&session), idColumn(&task), epoch})
	})
}

// DueTimers finds timers whose time has come, the oldest first.
func (s *Store) DueTimers(ctx context.Context, limit int) ([]Timer, error) {
	return query(ctx, s, nil, "timers_due", timerRow, s.Clock().UnixMicro(), limit)
}

// Beat says that a replica is alive.
func (s *Store) Beat(ctx context.Context, replica string) error {
	return s.write(ctx, func(ctx context.Context) error {
		return s.db.save(ctx, "beat", []any{replica, s.Clock().UnixMicro()})
	})
}

// LostAttempts finds the attempts whose replica has not been heard of for so long.
func (s *Store) LostAttempts(ctx context.Context, silent time.Duration) ([]Attempt, error) {
	return query(ctx, s, nil, "attempts_lost", attemptRow, s.Clock().Add(-silent).UnixMicro())
}

// AttemptsOf finds the attempts of a replica.
func (s *Store) AttemptsOf(ctx context.Context, replica string) ([]Attempt, error) {
	return query(ctx, s, nil, "attempts_of", attemptRow, replica)
}
