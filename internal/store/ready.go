package store

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// fairTag gives the next ready run of a session its place in the fair queue (start-time fair
// queueing). The tags of a session's runs are one apart. A session that was idle starts at the
// virtual time, which is the tag of the run that was announced last.
func (b *batch) fairTag(id tree.SessionID) int64 {
	s := b.sessions[id]
	s.fairTag = max(b.virtualTime, s.fairTag) + 1
	return s.fairTag
}

// heldBack is the announced_until of a run whose session already runs as many tasks as it may. So a
// flood of such runs does not get in the way of other sessions.
const heldBack = -1

// holdsBack reports whether a session, in which a run is ready, runs as many tasks as it may.
func holdsBack(s *tree.Session) bool { return s.Running+s.Pending > s.Cap() }

// PickReady picks runs to announce, and returns as many as there is room for in addition to those
// that are announced and not yet claimed. Interactive runs go before background runs, which keep a
// small share. Then tenants take turns, and the sessions of a tenant. Within a session, runs with
// precedence go first. Sessions and tenants that have reached their caps, counting what is
// announced, are passed over. A run that is not claimed within the lease is picked again.
func (s *Store) PickReady(ctx context.Context, room int, lease time.Duration) ([]Ready, error) {
	if taken, ok, err := s.pickMirrored(ctx, room, lease); ok || err != nil {
		return taken, err
	}
	// A read without a transaction comes first: most of the time there is nothing to pick.
	look, err := one(ctx, s.db, errors.New("no answer"), "ready_any", func(l *readySummary) []any { return []any{&l.any, &l.ordered, &l.inForce, &l.unlisted} },
		s.clock(), inForce(lease).Microseconds())
	switch {
	case err != nil:
		return nil, err
	case look.unlisted:
		if err := s.listAll(ctx, false); err != nil {
			return nil, err
		}
		look.ordered = true // some of them may have precedence
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
	s.mirror.pickedFromTable(taken)
	return taken, err
}

// inForce is how far in the future an announcement can expire, by the clock of any replica.
func inForce(lease time.Duration) time.Duration { return 2 * lease }

// readySummary sums up the ready runs.
type readySummary struct {
	any      bool // some may be announced
	ordered  bool // some waiting runs have precedence over others of their session
	inForce  int  // announcements that have not expired
	unlisted bool // some runs have no row
}

// MayHaveQueuedRuns reports whether a ready run may be waiting for its turn.
func (s *Store) MayHaveQueuedRuns() bool { return s.window.mayHaveQueuedRuns() }

// ReleaseReady takes back an announcement: the run can be picked again at once.
func (s *Store) ReleaseReady(ctx context.Context, session tree.SessionID, task tree.TaskID, epoch int64) error {
	s.window.close()
	s.mirror.release(s.now(), task, epoch)
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		return b.tx.save(ctx, "ready_mark", []any{0, idColumn(&session), idColumn(&task), epoch})
	})
}

// DueTimers finds timers that are due, oldest first.
func (s *Store) DueTimers(ctx context.Context, limit int) ([]Timer, error) {
	return query(ctx, s.db, "timers_due", timerRow, s.clock(), limit)
}

// forgetReplica is how long a replica may be silent before it is deleted.
const forgetReplica = time.Hour

// ForgetSilentReplicas deletes replicas that have been silent for long, and the workers that only
// they knew. A heartbeat that lies in the future, because the clock was set back, counts as a
// heartbeat of now.
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

// Heartbeat records that a replica is alive, and how many slots the workers on its streams have. It
// returns the current Capacity, and learns which form of rows all replicas can read. It waits for
// no other transaction and is sent in one piece, so no heartbeat is left half done when its
// connection fails.
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
	case there.Replicas == 0: // at least this one was counted, so the rows were lost with the connection
		return nil, errUnanswered
	}
	s.allReadPacked.Store(form >= currentRowForm)
	s.mirror.setAlone(s.Exclusive() || there.Replicas == 1)
	return &there, nil
}

// Capacity is the total capacity of the installation.
type Capacity struct {
	Replicas int // live replicas
	Slots    int // slots of all workers
}

func capacityRow(c *Capacity) []any { return []any{&c.Replicas, &c.Slots} }

// Capacity reads the current capacity, without replicas that have been silent for so long.
func (s *Store) Capacity(ctx context.Context, silent time.Duration) (*Capacity, error) {
	return one(ctx, s.db, errors.New("no answer"), "capacity", capacityRow, s.clock(), silent.Microseconds())
}

// LostAttempts finds the attempts whose replica has been silent for so long.
func (s *Store) LostAttempts(ctx context.Context, silent time.Duration) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_lost", attemptRow, s.clock(), silent.Microseconds())
}

// ReleasedTasks finds the runs of a replica whose workers have to move commands to the background.
func (s *Store) ReleasedTasks(ctx context.Context, replica string) ([]tree.Task, error) {
	return query(ctx, s.db, "tasks_released", taskRow, replica)
}

// AttemptsByNonce finds the attempt of a worker with a nonce that the worker has chosen, if there
// is one.
func (s *Store) AttemptsByNonce(ctx context.Context, worker string, nonce uint64) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_by", attemptRow, worker, bitsColumn{&nonce})
}

// AttemptsOfReplica finds the attempts of a replica.
func (s *Store) AttemptsOfReplica(ctx context.Context, replica string) ([]Attempt, error) {
	return query(ctx, s.db, "attempts_of", attemptRow, replica)
}
