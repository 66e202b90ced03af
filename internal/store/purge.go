package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// purgeRows is how many rows one step of a purge removes.
const purgeRows = 1000

// purgeStatements are, for each table with rows of sessions, a look whether there are
// any and their removal, some at once.
func purgeStatements(into map[string]string) {
	for _, t := range tables {
		if t.columns[0] != "session" {
			continue
		}
		into["left_"+t.name] = "SELECT 1 FROM " + t.name + " WHERE session = ?1 LIMIT 1"
		keys := strings.Join(t.columns[:t.keys], ", ")
		into["purge_"+t.name] = fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s WHERE session = ?1 LIMIT ?2)",
			t.name, keys, keys, t.name)
	}
	into["purge_sessions"] = "DELETE FROM sessions WHERE id = ?1 AND deleted_at IS NOT NULL"
}

// Deleted gives sessions that were deleted and whose rows are still there.
func (s *Store) Deleted(ctx context.Context, most int) ([]tree.SessionID, error) {
	return query(ctx, s.db, "sessions_deleted", func(id *tree.SessionID) []any { return []any{idColumn(id)} }, most)
}

// Purge takes one step in removing the rows of a session that was deleted: some of
// one table, at last the session. It reports whether that was the last. Steps may be
// taken twice, and by several replicas.
func (s *Store) Purge(ctx context.Context, id tree.SessionID) (done bool, err error) {
	err = s.write(ctx, func(ctx context.Context, b *batch) error {
		deleted := false
		err := b.tx.load(ctx, lookup{"session_deleted", [][]any{{idColumn(&id)}}, func(row row) error {
			return row.Scan(&deleted)
		}})
		if err != nil || !deleted {
			done = true
			return err
		}
		for _, t := range tables {
			if t.columns[0] != "session" {
				continue
			}
			left := false
			look := lookup{"left_" + t.name, [][]any{{idColumn(&id)}}, func(row row) error {
				left = true
				return row.Scan(new(int))
			}}
			if err := b.tx.load(ctx, look); err != nil {
				return err
			}
			if left {
				return b.tx.save(ctx, "purge_"+t.name, []any{idColumn(&id), purgeRows})
			}
		}
		b.gone(id)
		done = true
		return b.tx.save(ctx, "purge_sessions", []any{idColumn(&id)})
	})
	return done, err
}

// Old looks at some sessions after an id, and gives those in which nothing runs and
// nothing has happened for so long. last is the id to go on after; zero at the end.
func (s *Store) Old(ctx context.Context, quiet time.Duration, after tree.SessionID, look int) (old []tree.SessionID, last tree.SessionID, err error) {
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
