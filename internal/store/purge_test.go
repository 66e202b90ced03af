package store_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/tree"
)

// replicasPurgeApart: what one replica is removing another one leaves to it, and removes what
// comes after it.
func replicasPurgeApart(t *testing.T, server *pgtest.Server) {
	const sessions = 40
	url := server.Database(t)
	db := replicas(t, url, 1)[0]
	var deleted []tree.SessionID
	for range sessions {
		id := newSession()
		if _, err := db.Update(t.Context(), id, open(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Update(t.Context(), id, tree.DeleteSession{}); err != nil {
			t.Fatal(err)
		}
		deleted = append(deleted, id)
	}
	purge := func() {
		for more := true; more; {
			var err error
			if more, err = db.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (left []tree.SessionID) {
		for _, id := range deleted {
			events, err := db.Events(t.Context(), id, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) > 0 {
				left = append(left, id)
			}
		}
		return left
	}
	other, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), "SELECT FROM sessions WHERE id = ANY ($1) FOR UPDATE", [][]byte{deleted[0][:], deleted[1][:]}); err != nil {
		t.Fatal(err)
	}
	purge()
	if !slices.Equal(left(), deleted[:2]) {
		t.Errorf("beside another replica that has the first two %d are left", len(left()))
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if purge(); len(left()) > 0 {
		t.Errorf("%d are left", len(left()))
	}
}

// replicasPurge: what replicas still remove of a session that was deleted is nothing of the
// one that comes after it under its id.
func replicasPurge(t *testing.T, server *pgtest.Server) {
	const rounds = 100
	dbs := replicas(t, server.Database(t), 3)
	id := newSession()
	for range rounds {
		if _, err := dbs[0].Update(t.Context(), id, open(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := dbs[0].Update(t.Context(), id, tree.DeleteSession{}); err != nil {
			t.Fatal(err)
		}
		var purging sync.WaitGroup
		var opened atomic.Bool
		for _, db := range dbs {
			purging.Go(func() {
				for !opened.Load() {
					if _, err := db.Purge(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for err := error(tree.ErrDeleting); err != nil; {
			if _, err = dbs[0].Update(t.Context(), id, open(id)); err != nil && !errors.Is(err, tree.ErrDeleting) {
				opened.Store(true)
				t.Fatal(err)
			}
		}
		opened.Store(true)
		purging.Wait()
		rows, err := dbs[0].Rows(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range tree.Diagnose(rows) {
			t.Errorf("%s: %s: %s", v.Rule, v.Task, v.Detail)
		}
		if len(rows.Tasks) == 0 || t.Failed() {
			t.Fatalf("the new session has %d tasks", len(rows.Tasks))
		}
		if _, err := dbs[0].Update(t.Context(), id, tree.DeleteSession{}); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			if more, err = dbs[0].Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
