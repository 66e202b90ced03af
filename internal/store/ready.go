package store

import (
	"context"
	"database/sql"
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

// TakeReady picks runs to be announced: as many as there is room for beside those
// that are announced and not claimed yet. Interactive runs go before background
// ones, then sessions take turns; a session that runs, with what is announced, as
// many tasks as it may is passed over. A run that nobody claims within the lease
// is picked again.
func (s *Store) TakeReady(ctx context.Context, room int, lease time.Duration) ([]Ready, error) {
	// A look that takes no transaction; most of the time there is nothing.
	var due bool
	err := s.db.reads.QueryRowContext(ctx, anyDue, s.Clock().UnixMicro()).Scan(&due)
	if err != nil || !due {
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

const anyDue = `SELECT EXISTS (SELECT 1 FROM ready WHERE announced_until <= ?)`

// announcedBySession counts the announcements that are in force.
const announcedBySession = `SELECT session, count(*) FROM ready
WHERE announced_until > ? AND announced_until > 0 GROUP BY session`

// nextReady finds due runs of sessions below their cap, the next ones first.
const nextReady = `SELECT r.session, r.task, r.epoch, r.priority, r.fair_tag, r.at, r.announced_until, s.max_running - s.running
FROM ready r INDEXED BY ready_next CROSS JOIN sessions s ON s.id = r.session
WHERE r.announced_until <= ?1 AND s.running < s.max_running
ORDER BY r.priority, r.fair_tag LIMIT ?2`

const announce = `UPDATE ready SET announced_until = ? WHERE session = ? AND task = ? AND epoch = ?`

// lookAhead is how many candidates are read for each run that there is room for,
// since some may belong to sessions whose announcements fill their cap.
const lookAhead = 4

func (s *Store) takeReady(ctx context.Context, room int, now time.Time, lease time.Duration) ([]Ready, error) {
	announced := map[tree.SessionID]int{}
	err := s.db.load(ctx, announcedBySession, [][]any{{now.UnixMicro()}}, func(rows *sql.Rows) error {
		var session tree.SessionID
		var n int
		if err := rows.Scan(idColumn(&session), &n); err != nil {
			return err
		}
		announced[session] = n
		room -= n
		return nil
	})
	if err != nil || room <= 0 {
		return nil, err
	}
	var taken []Ready
	var updates [][]any
	until := now.Add(lease).UnixMicro()
	err = s.db.load(ctx, nextReady, [][]any{{now.UnixMicro(), room * lookAhead}}, func(rows *sql.Rows) error {
		var r Ready
		var free int
		if err := rows.Scan(append(readyRow(&r), &free)...); err != nil {
			return err
		}
		if len(taken) == room || announced[r.Session] >= free {
			return nil
		}
		announced[r.Session]++
		s.fair.served(r.fairTag)
		r.Again = r.announcedUntil > 0
		taken = append(taken, r)
		updates = append(updates, []any{until, idColumn(&r.Session), idColumn(&r.Task), r.Epoch})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return taken, s.db.exec(ctx, announce, updates...)
}

// ReleaseReady makes a run that was announced due again at once.
func (s *Store) ReleaseReady(ctx context.Context, session tree.SessionID, task tree.TaskID, epoch int64) error {
	return s.write(ctx, func(ctx context.Context) error {
		return s.db.exec(ctx, announce, []any{0, idColumn(&session), idColumn(&task), epoch})
	})
}

// DueTimers finds timers whose time has come, the oldest first.
func (s *Store) DueTimers(ctx context.Context, limit int) ([]Timer, error) {
	return query(ctx, s.db.reads, timerTable.get("due <= ? ORDER BY due LIMIT ?"), timerRow,
		s.Clock().UnixMicro(), limit)
}

// Beat says that a replica is alive.
func (s *Store) Beat(ctx context.Context, replica string) error {
	return s.write(ctx, func(ctx context.Context) error {
		return s.db.exec(ctx, "INSERT INTO replicas (id, beat) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET beat = ?2",
			[]any{replica, s.Clock().UnixMicro()})
	})
}

// lostAttempts finds the attempts whose replica is unknown or silent.
var lostAttempts = attemptTable.get("NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = attempts.replica AND r.beat > ?)")

// LostAttempts finds the attempts whose replica has not been heard of for so long.
func (s *Store) LostAttempts(ctx context.Context, silent time.Duration) ([]Attempt, error) {
	return query(ctx, s.db.reads, lostAttempts, attemptRow, s.Clock().Add(-silent).UnixMicro())
}

// AttemptsOf finds the attempts of a replica.
func (s *Store) AttemptsOf(ctx context.Context, replica string) ([]Attempt, error) {
	return query(ctx, s.db.reads, attemptTable.get("replica = ?"), attemptRow, replica)
}
