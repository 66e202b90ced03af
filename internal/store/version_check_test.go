package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestFollowing: sessions are written if all of them are as they are held, and none of them if
// one is not, whether they are written one by one or together.
func TestFollowing(t *testing.T) {
	t.Parallel()
	db := planned(t, pgtest.Start(t).Database(t))
	w := db.writer(stallTimeout)
	for sessions := 1; sessions <= maxSingleRows+2; sessions++ {
		checkFollowing(t, db, w, sessions)
	}
}

func checkFollowing(t *testing.T, db database, w writer, sessions int) {
	t.Helper()
	session := func(i int, version int64) []any {
		s := tree.Session{ID: tree.SessionID{byte(sessions), byte(i)}, Root: tree.TaskID{1}, CreatedAt: time.UnixMicro(1), UpdatedAt: time.UnixMicro(version)}
		return sessionRow(&s, &sessionExtras{version: version})
	}
	write := func(statement string, versions ...int64) error {
		var rows [][]any
		for i, version := range versions {
			_, changed := sessionTable.updateStatement(session(i, 0), session(i, version))
			rows = append(rows, changed)
		}
		return w.transact(t.Context(), func(tx transaction) error {
			return tx.loadLater(t.Context(), lookup{statement, rows, func(row row) error { return row.Scan(new(int)) }})
		}, func() {})
	}
	versions := func() (now []int64) {
		for i := range sessions {
			var b sessionExtras
			err := db.load(t.Context(), lookup{"session", [][]any{session(i, 0)[:1]}, func(row row) error {
				return row.Scan(sessionRow(&tree.Session{}, &b)...)
			}})
			if err != nil {
				t.Fatal(err)
			}
			now = append(now, b.version)
		}
		return now
	}
	err := w.transact(t.Context(), func(tx transaction) error {
		for i := range sessions {
			if err := tx.save(t.Context(), "add_sessions", session(i, 1)); err != nil {
				return err
			}
		}
		return nil
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	follow := versionCheckedName(sessionTable.updates[0].name)
	next := slices.Repeat([]int64{2}, sessions)
	if err := write(follow, next...); err != nil || !slices.Equal(versions(), next) {
		t.Fatalf("%d sessions as they are held: %v, then the versions are %v", sessions, err, versions())
	}
	one := slices.Repeat([]int64{3}, sessions)
	one[sessions-1] = 2 // it has been written since
	if err := write(follow, one...); !errors.Is(err, errChanged) || !slices.Equal(versions(), next) {
		t.Errorf("one of %d is not as it is held: %v, then the versions are %v", sessions, err, versions())
	}
}
