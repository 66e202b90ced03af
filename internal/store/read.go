package store

import (
	"context"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// all is a query whose rows are appended to a list.
func all[T any](to *[]T, name string, columns func(*T) []any, args ...any) lookup {
	return each(to, name, columns, [][]any{args})
}

// each is a query that runs once per key, whose rows are appended to a list.
func each[T any](to *[]T, name string, columns func(*T) []any, keys [][]any) lookup {
	return lookup{name, keys, func(row row) error {
		var t T
		if err := row.Scan(columns(&t)...); err != nil {
			return err
		}
		*to = append(*to, t)
		return nil
	}}
}

// query returns all rows of a query.
func query[T any](ctx context.Context, r reader, name string, columns func(*T) []any, args ...any) ([]T, error) {
	var found []T
	if err := r.load(ctx, all(&found, name, columns, args...)); err != nil {
		return nil, err
	}
	return found, nil
}

// one returns the only row of a query, or the error missing if there is none.
func one[T any](ctx context.Context, r reader, missing error, name string, columns func(*T) []any, args ...any) (*T, error) {
	found, err := query(ctx, r, name, columns, args...)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, missing
	}
	return &found[0], nil
}

// coalescingReader is a reader that uses loadCoalesced.
type coalescingReader struct{ database }

func (g coalescingReader) load(ctx context.Context, lookups ...lookup) error {
	return g.loadCoalesced(ctx, lookups...)
}

func plainSessionRow(s *tree.Session) []any { return sessionRow(s, new(sessionExtras)) }

// Session reads a session of a tenant. A session of another tenant counts as missing.
func (s *Store) Session(ctx context.Context, tenant string, id tree.SessionID) (*tree.Session, error) {
	return one(ctx, coalescingReader{s.db}, tree.ErrNoSession, "session_of_tenant", plainSessionRow, idColumn(&id), tenant)
}

// ExistingSessions returns those of the sessions that exist, in any tenant, in the given order.
func (s *Store) ExistingSessions(ctx context.Context, ids []tree.SessionID) ([]tree.SessionID, error) {
	keys := make([][]any, len(ids))
	for i := range ids {
		keys[i] = []any{idColumn(&ids[i])}
	}
	var found []tree.SessionID
	err := s.db.load(ctx, each(&found, "session_there", func(id *tree.SessionID) []any { return []any{idColumn(id)} }, keys))
	return found, err
}

// SessionAndRoot reads a session of a tenant with its root.
func (s *Store) SessionAndRoot(ctx context.Context, tenant string, id tree.SessionID) (*tree.Session, *tree.Task, error) {
	var sessions []tree.Session
	var roots []tree.Task
	err := s.db.loadCoalesced(ctx, all(&sessions, "session_of_tenant", plainSessionRow, idColumn(&id), tenant), all(&roots, "root", taskRow, idColumn(&id)))
	switch {
	case err != nil:
		return nil, nil, err
	case len(sessions) == 0:
		return nil, nil, tree.ErrNoSession
	case len(roots) == 0:
		return nil, nil, tree.ErrNoTask
	}
	return &sessions[0], &roots[0], nil
}

// Sessions reads a page of a tenant's sessions whose metadata contains all pairs of the filter,
// newest first. If few sessions match, a page is not full, and may be empty: one read scans a
// limited number of rows.
func (s *Store) Sessions(ctx context.Context, tenant, token string, size int, filter map[string]string) (Page[tree.Session], error) {
	list := listOf("sessions", tenant, filter)
	var id tree.SessionID
	before, err := list.after(token, id[:])
	if err != nil {
		return Page[tree.Session]{}, err
	}
	if token == "" {
		before = time.UnixMicro(1<<62 - 1)
	}
	look := maxScanRows
	if len(filter) == 0 {
		filter, look = map[string]string{}, size
	}
	found, last, err := scan(ctx, s.scans, "sessions_page", plainSessionRow, size, look,
		tenant, before.UnixMicro(), id[:], size, jsonColumn{filter}, look)
	return pageOf(found, last, func(s *tree.Session) string { return list.token(s.CreatedAt, s.ID[:]) }), err
}

// Task reads a task.
func (s *Store) Task(ctx context.Context, session tree.SessionID, id tree.TaskID) (*tree.Task, error) {
	return one(ctx, coalescingReader{s.db}, tree.ErrNoTask, "task", taskRow, idColumn(&session), idColumn(&id))
}

// Tasks reads a page of a session's tasks, or of the children of one of them,
// oldest first.
func (s *Store) Tasks(ctx context.Context, session tree.SessionID, parent tree.TaskID, token string, size int) (Page[tree.Task], error) {
	list := listOf("tasks", session, parent)
	var after tree.TaskID
	if _, err := list.after(token, after[:]); err != nil {
		return Page[tree.Task]{}, err
	}
	name, args := "tasks_page", []any{idColumn(&session), after[:], size}
	if !parent.IsZero() {
		name, args = "children_page", append(args, idColumn(&parent))
	}
	found, err := query(ctx, s.scans, name, taskRow, args...)
	return pageOf(found, lastOf(found, size), func(t *tree.Task) string { return list.token(t.CreatedAt, t.ID[:]) }), err
}

// Tree reads all tasks of a session, ordered by the start of their first run (the time it was
// accepted), then by id.
func (s *Store) Tree(ctx context.Context, session tree.SessionID) ([]tree.Task, error) {
	return query(ctx, s.scans, "tree", taskRow, idColumn(&session))
}

// Idle reports whether no run of a session is pending or running, and returns the session and its
// root as of that moment.
func (s *Store) Idle(ctx context.Context, id tree.SessionID) (idle bool, at tree.Session, root tree.Task, err error) {
	var sessions []tree.Session
	var roots []tree.Task
	err = s.db.load(ctx, all(&sessions, "session", plainSessionRow, idColumn(&id)), all(&roots, "root", taskRow, idColumn(&id)))
	switch {
	case err != nil:
		return false, at, root, err
	case len(sessions) == 0:
		return false, at, root, tree.ErrNoSession
	case len(roots) == 0:
		return false, at, root, tree.ErrNoTask
	}
	return sessions[0].Idle(), sessions[0], roots[0], nil
}
