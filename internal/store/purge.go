package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// Limits of one purge step.
const (
	purgeRows     = 1000 // rows of all tables, roughly
	purgeAtOnce   = 100  // rows of each table of a session per round trip
	purgeSessions = 16
)

// purgeStatements adds statements that remove some rows of a session, for each table that has such
// rows.
func purgeStatements(into map[string]string) {
	for _, t := range tables {
		if t.columns[0] != "session" {
			continue
		}
		keys := strings.Join(t.columns[:t.keys], ", ")
		into["purge_"+t.name] = fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s WHERE session = ?1 LIMIT ?2) RETURNING 1",
			t.name, keys, keys, t.name)
	}
	into["purge_sessions"] = "DELETE FROM sessions WHERE id = ?1 AND deleted_at IS NOT NULL"
}

// Purge takes one step in removing the rows of deleted sessions, the earliest deleted first: some
// rows of a large session, or several small sessions. It reports whether there may be more to do.
// Several replicas may purge at the same time: each works on other sessions.
func (s *Store) Purge(ctx context.Context) (more bool, err error) {
	err = s.write(ctx, func(ctx context.Context, b *batch) error {
		var err error
		more, err = b.purge(ctx)
		return err
	})
	return more, err
}

func (b *batch) purge(ctx context.Context) (more bool, err error) {
	var deleted []tree.SessionID
	err = b.tx.load(ctx, lookup{"sessions_deleted", [][]any{{purgeSessions}}, func(row row) error {
		var id tree.SessionID
		err := row.Scan(idColumn(&id))
		deleted = append(deleted, id)
		return err
	}})
	if err != nil {
		return false, err
	}
	for removed := 0; len(deleted) > 0; {
		if removed >= purgeRows {
			return true, nil
		}
		id := deleted[0]
		rows, empty, err := b.purgeSome(ctx, id)
		if err != nil {
			return false, err
		}
		if removed += rows; !empty {
			continue
		}
		b.dropSession(id)
		if err := b.tx.save(ctx, "purge_sessions", []any{idColumn(&id)}); err != nil {
			return false, err
		}
		more = true
		deleted = deleted[1:]
	}
	return more, nil
}

// purgeSome removes some rows of a session from all tables, and reports whether only the session's
// own row is left.
func (b *batch) purgeSome(ctx context.Context, id tree.SessionID) (removed int, empty bool, err error) {
	empty = true
	var lookups []lookup
	for _, t := range tables {
		if t.columns[0] != "session" {
			continue
		}
		of := 0
		lookups = append(lookups, lookup{"purge_" + t.name, [][]any{{idColumn(&id), purgeAtOnce}}, func(row row) error {
			removed++
			if of++; of == purgeAtOnce {
				empty = false // perhaps
			}
			return row.Scan(new(int))
		}})
	}
	err = b.tx.load(ctx, lookups...)
	return removed, empty, err
}

// InactiveSessions scans some sessions after an id. It returns those with no run under way and no
// change for the quiet time. last is the id to continue after; zero at the end.
func (s *Store) InactiveSessions(ctx context.Context, quiet time.Duration, after tree.SessionID, look int) (old []tree.SessionID, last tree.SessionID, err error) {
	seen := 0
	err = s.db.load(ctx, lookup{"sessions_old", [][]any{{s.clock(), quiet.Microseconds(), after[:], look}}, func(row row) error {
		var is bool
		if err := row.Scan(idColumn(&last), &is); err != nil {
			return err
		}
		seen++
		if is {
			old = append(old, last)
		}
		return nil
	}})
	if err != nil {
		return nil, last, err
	}
	if seen < look {
		last = tree.SessionID{}
	}
	return old, last, nil
}
