package store

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// fairTag gives the next ready run of a session the tag by which it is offered:
// start-time fair queueing, in which each session's runs are one tag apart and a
// session that was idle starts at the present, which is the tag of the run that
// was offered last.
func (b *batch) fairTag(id tree.SessionID) int64 {
	s := b.sessions[id]
	s.fairTag = max(b.virtualTime, s.fairTag) + 1
	return s.fairTag
}

// heldBack is announced_until of a run whose session may not run more at once. A
// flood of such runs is out of the way of other sessions' runs.
const heldBack = -1

// PickReady picks runs to be announced: as many as there is room for beside those
// that are announced and not claimed yet. Interactive runs go before background
// ones, which keep a share; then tenants take turns, then a tenant's sessions; of a
// session first what has precedence. A session or a tenant that runs, with what is
// announced, as many tasks as it may is passed over. A run that nobody claims within
// the lease is picked again.
func (s *Store) PickReady(ctx context.Context, room int, lease time.Duration) ([]Ready, error) {
	// A look that takes no transaction; most of the time there is nothing.
	look, err := one(ctx, s.db, errors.New("no answer"), "ready_any", func(l *readySummary) []any { return []any{&l.any, &l.ordered, &l.inForce} },
		s.clock(), inForce(lease).Microseconds())
	switch {
	case err != nil:
		return nil, err
	case !look.any:
		s.window.open(room, look.inForce, lease)
		return nil, nil
	}
	s.window.close()
	var taken []Ready
	err = s.write(ctx, func(ctx context.Context, b *batch) error {
		var err error
		taken, err = b.takeReady(ctx, room, lease, look.ordered)
		return err
	})
	return taken, err
}

// inForce is how far ahead an announcement may end, by whichever clock, that is in force.
func inForce(lease time.Duration) time.Duration { return 2 * lease }

// readySummary is what a look at the ready runs finds.
type readySummary struct {
	any     bool // of them may be announced
	ordered bool // some that wait go before others of their session
	inForce int  // announcements
}

// MayHaveBacklog reports whether a ready run may be waiting for its turn.
func (s *Store) MayHaveBacklog() bool { return s.window.mayHaveBacklog() }

// ReleaseReady makes a run that was announced due again at once.
func (s *Store) ReleaseReady(ctx context.Context, session tree.SessionID, task tree.TaskID, epoch int64) error {
	s.window.close()
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		return b.tx.save(ctx, "ready_mark", []any{0, idColumn(&session), idColumn(&task), epoch})
	})
}

// DueTimers finds timers whose time has come, the oldest first.
func (s *Store) DueTimers(ctx context.Context, limit int) ([]Timer, error) {
	return query(ctx, s.db, "timers_due", timerRow, s.clock(), limit)
}

// forgetReplica is how long a replica may be silent before nothing is known of it.
const forgetReplica = time.Hour

// ForgetSilentReplicas forgets replicas that have long been silent, and the workers that only they knew. That
// a replica is alive it takes to be said now if the clock has been set back since.
func (s *Store) ForgetSilentReplicas(ctx context.Context) error {
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		if err := b.tx.save(ctx, "replicas_ahead", []any{s.clock()}); err != nil {
			return err
		}
		if err := b.tx.save(ctx, "replicas_forget", []any{s.clock(), forgetReplica.Microseconds()}); err != nil {
			return err
		}
		return b.tx.save(ctx, "workers_forget", []any{s.clock()})
	})
}

// Heartbeat says that a replica is alive, and how many runs the workers on its streams can carry. It
// learns which form of rows all replicas read, and what Capacity there is. It waits for nothing
// that others do, and is sent in one piece: none is ever half done when its connection falls silent.
func (s *Store) Heartbeat(ctx context.Context, replica string, slots int, silent time.Duration) (*Capacity, error) {
	var form int
	var there Capacity
	err := s.heartbeatCommitter.step(ctx, func(ctx context.Context, b *batch) error {
		if err := b.tx.save(ctx, "beat", []any{s.clock(), replica, slots, currentRowForm}); err != nil {
			return err
		}
		return b.tx.loadLater(ctx,
			lookup{"row_form", [][]any{{}}, func(row row) error { return row.Scan(&form) }},
			lookup{"capacity", [][]any{{s.clock(), silent.Microseconds()}}, func(row row) error { return row.Scan(capacityRow(&there)...) }})
	})
	switch {
	case err != nil:
		return nil, err
	case there.Replicas == 0: // it has counted this one, and the connection was lost before that came
		return nil, errUnanswered
	}
	s.allReadPacked.Store(form >= currentRowForm)
	return &there, nil
}

// Capacity is what there is to do work with.
type Capacity struct {
	Replicas int // that are alive
	Slots    int // runs that all workers can carry
}

func capacityRow(c *Capacity) []any { return []any{&c.Replicas, &c.Slots} }

// Capacity looks what there is, but for replicas that have not been heard of for so long.
func (s *Store) Capacity(ctx context.Context, silent time.Duration) (*Capacity, error) {
	return one(ctx, s.db, errors.New("no answer"), "capacity", capacityRow, s.clock(), silent.Microseconds())
}

// LostAttempts finds the attempts whose replica has not been heard of for so long.
func (s *Store) LostAttempts(ctx context.Context, silent time.Duration) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_lost", attemptRow, s.clock(), silent.Microseconds())
}

// ReleasedTasks finds the runs of a replica that are to let commands go on in the background.
func (s *Store) ReleasedTasks(ctx context.Context, replica string) ([]tree.Task, error) {
	return query(ctx, s.db, "tasks_released", taskRow, replica)
}

// AttemptsByNonce finds the attempt of a worker under a number that it has chosen, if it has one.
func (s *Store) AttemptsByNonce(ctx context.Context, worker string, nonce uint64) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_by", attemptRow, worker, bitsColumn{&nonce})
}

// AttemptsOfReplica finds the attempts of a replica.
func (s *Store) AttemptsOfReplica(ctx context.Context, replica string) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_of", attemptRow, replica)
}
