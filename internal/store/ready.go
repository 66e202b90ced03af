package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// fairTag gives the next ready run of a session the tag by which it is offered:
// start-time fair queueing, in which each session's runs are one tag apart and a
// session that was idle starts at the present, which is the tag of the run that
// was offered last.
func (b *batch) fairTag(id tree.SessionID) int64 {
	b.fairTags[id] = max(b.fairNow, b.fairTags[id]) + 1
	return b.fairTags[id]
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
	due, err := one(ctx, s.db, errors.New("no answer"), "ready_any", func(b *bool) []any { return []any{b} },
		s.clock())
	if err != nil || !*due {
		return nil, err
	}
	var taken []Ready
	err = s.write(ctx, func(ctx context.Context, b *batch) error {
		var err error
		taken, err = b.takeReady(ctx, room, lease)
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

// takeReady picks while nobody else does. What somebody is writing at the moment it
// passes over, so it never waits for a session's transaction, which may wait for it.
func (b *batch) takeReady(ctx context.Context, room int, lease time.Duration) ([]Ready, error) {
	o := &offer{room: room, announced: map[tree.SessionID]int{}}
	lock := lookup{"ready_lock", [][]any{{}}, func(row) error { return nil }}
	present := lookup{"present", [][]any{{b.clock()}}, func(row row) error {
		return row.Scan(timeColumn{&b.now}, &b.fairNow)
	}}
	if err := b.tx.load(ctx, lock, present); err != nil {
		return nil, err
	}
	err := b.tx.load(ctx, lookup{"ready_announced", [][]any{{b.now.UnixMicro()}}, func(row row) error {
		var session tree.SessionID
		var n int
		err := row.Scan(idColumn(&session), &n)
		o.announced[session] = n
		o.room -= n
		return err
	}})
	for more := err == nil; more && len(o.taken) < o.room; {
		var candidates []candidate
		if candidates, err = b.candidates(ctx, o); err != nil {
			return nil, err
		}
		more = o.pick(candidates, b.now.Add(lease))
		if err = b.tx.save(ctx, "ready_mark", o.marks...); err != nil {
			return nil, err
		}
		o.marks = nil
	}
	if err != nil || len(o.taken) == 0 {
		return nil, err
	}
	for _, r := range o.taken {
		b.fairNow = max(b.fairNow, r.fairTag)
	}
	return o.taken, b.tx.save(ctx, "ready_turn", []any{b.fairNow})
}

// candidate is a ready run and how many more its session may run, counting none
// of its announcements.
type candidate struct {
	Ready
	free int
}

// candidates reads what may be announced, the next first: as much as is due, and
// of what is held back as much as its sessions may run.
func (b *batch) candidates(ctx context.Context, o *offer) ([]candidate, error) {
	var found []candidate
	take := func(row row) error {
		var c candidate
		err := row.Scan(append(readyRow(&c.Ready), &c.free)...)
		found = append(found, c)
		return err
	}
	free := map[tree.SessionID]int{}
	err := b.tx.load(ctx,
		lookup{"ready_due", [][]any{{(o.room - len(o.taken)) * lookAhead}}, take},
		lookup{"ready_expired", [][]any{{b.now.UnixMicro()}}, take},
		lookup{"ready_full", [][]any{{}}, func(row row) error {
			var session tree.SessionID
			var n int
			err := row.Scan(idColumn(&session), &n)
			free[session] = n
			return err
		}})
	if err != nil {
		return nil, err
	}
	var keys [][]any
	for id, n := range free {
		if n -= o.announced[id]; n > 0 {
			keys = append(keys, []any{idColumn(&id), min(n, o.room-len(o.taken))})
		}
	}
	err = b.tx.load(ctx, lookup{"ready_held", keys, func(row row) error {
		var c candidate
		err := row.Scan(readyRow(&c.Ready)...)
		c.free = free[c.Session]
		found = append(found, c)
		return err
	}})
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
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		return b.tx.save(ctx, "ready_mark", []any{0, idColumn(&session), idColumn(&task), epoch})
	})
}

// DueTimers finds timers whose time has come, the oldest first.
func (s *Store) DueTimers(ctx context.Context, limit int) ([]Timer, error) {
	return query(ctx, s.db, "timers_due", timerRow, s.clock(), limit)
}

// Beat says that a replica is alive.
func (s *Store) Beat(ctx context.Context, replica string) error {
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		return b.tx.save(ctx, "beat", []any{s.clock(), replica})
	})
}

// LostAttempts finds the attempts whose replica has not been heard of for so long.
func (s *Store) LostAttempts(ctx context.Context, silent time.Duration) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_lost", attemptRow, s.clock(), silent.Microseconds())
}

// AttemptsOf finds the attempts of a replica.
func (s *Store) AttemptsOf(ctx context.Context, replica string) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_of", attemptRow, replica)
}
