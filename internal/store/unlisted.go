package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-run/coppice/internal/tree"
)

// Each run that waits has a row in the table of ready runs, with one exception. While this replica
// picks from its mirror, nobody would read the rows of a fan-out before they are deleted again. So
// they are left out, and the row of the session is marked. The runs follow from its tasks: those
// that are pending and not claimed, and have no row.
//
// Whoever reads the table to pick runs has the missing rows written first (listAll). So does a
// transaction that reads a marked session and does not know which rows are missing (listUnknown):
// another replica's, one after a crash, or one that comes when the session is not cached any more.

// unlistFrom is how many runs of a session have to become ready in one transaction if their rows
// are left out. For fewer it would save little: the row of the session is marked, and later unmarked.
const unlistFrom = 4

// unlistedRuns finds the runs without a row among tasks that are joined with their claims.
var unlistedRuns = fmt.Sprintf("tasks.state = %d AND claim.epoch IS NULL AND "+
	"(SELECT epoch FROM ready WHERE ready.session = tasks.session AND ready.task = tasks.id) IS NULL", tree.StatePending)

// unlistsMany reports whether so many runs of a session that become ready need no rows.
func (s *Store) unlistsMany(runs int) bool { return runs >= unlistFrom && s.mirror.isComplete() }

// mayUnlist reports whether the rows of runs that become ready may be left out.
func (b *batch) mayUnlist(ready map[tree.TaskID]*tree.Ready) bool {
	runs := 0
	for _, r := range ready {
		if r != nil {
			runs++
		}
	}
	return b.writesNewestForm() && b.unlists(runs)
}

// followsFrom reports whether the row of a ready run follows from its task, as ready_list writes it.
func followsFrom(t *tree.Task, r *tree.Ready) bool {
	return t != nil && t.State == tree.StatePending && t.Epoch == r.Epoch && t.Priority == r.Priority &&
		r.Precedence == t.Depth-1 && t.MovedAt.Equal(r.At)
}

// unlist notes that a ready run of the session has no row.
func (s *cachedSession) unlist(task tree.TaskID) {
	if s.unlisted == nil {
		s.unlisted = map[tree.TaskID]bool{}
	}
	s.unlisted[task] = true
}

// unlistedChanged reports whether the mark in the session's row has to change.
func (s *cachedSession) unlistedChanged() bool {
	return s.row != nil && s.row.unlisted != (len(s.unlisted) > 0)
}

// listUnknown writes the missing rows of the sessions of which it is not known which ones are missing.
func (b *batch) listUnknown(ctx context.Context) error {
	for _, id := range b.order {
		if s := b.sessions[id]; s.row != nil && s.row.unlisted && len(s.unlisted) == 0 {
			if err := b.list(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// list writes the missing rows of a session.
func (b *batch) list(ctx context.Context, id tree.SessionID) error {
	s := b.sessions[id]
	if s.row == nil || !s.row.unlisted {
		return nil
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	s.unlisted = nil
	return b.tx.save(ctx, "ready_list", []any{idColumn(&id), b.Replica})
}

// listAtOnce is how many sessions listAll has listed at once.
const listAtOnce = 100

// listAll writes the missing rows of all sessions; with exceptKnown, not those of sessions whose
// committer has left them out itself. If it fails for a session, its transaction logs that, and the
// rows of the others are written.
func (s *Store) listAll(ctx context.Context, exceptKnown bool) error {
	var last tree.SessionID
	for more := true; more; {
		marked, err := query(ctx, s.db, "sessions_unlisted", func(id *tree.SessionID) []any { return []any{idColumn(id)} }, last[:], listAtOnce)
		if err != nil {
			return err
		}
		if err := s.listSome(ctx, marked, exceptKnown); err != nil {
			return err
		}
		if more = len(marked) == listAtOnce; more {
			last = marked[len(marked)-1]
		}
	}
	return nil
}

// listSome is listAll for some sessions.
func (s *Store) listSome(ctx context.Context, marked []tree.SessionID, exceptKnown bool) error {
	steps := make([]*Pending, len(marked))
	for i, id := range marked {
		steps[i] = s.Prepare(id, nil, nil)
		steps[i].step = func(ctx context.Context, b *batch) error {
			if exceptKnown {
				return nil // listUnknown has written the others
			}
			return b.list(ctx, id)
		}
		if err := s.committerOf(id).enqueue(ctx, steps[i]); err != nil {
			return err
		}
	}
	for _, p := range steps {
		if _, err := p.Wait(ctx); errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return err
		}
	}
	return nil
}
