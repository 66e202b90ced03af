package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

func newSession() tree.SessionID { return tree.SessionID(uuid.Must(uuid.NewV7())) }

// running opens a store that commits until the test ends.
func running(t testing.TB, c store.Config) *store.Store {
	t.Helper()
	db, err := store.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	commits(t, db)
	return db
}

// commits lets a store commit until the test ends, and closes it then.
func commits(t testing.TB, db *store.Store) {
	ctx, stop := context.WithCancel(context.Background())
	var committing sync.WaitGroup
	committing.Go(func() {
		if err := db.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		committing.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestDiskFull: a full disk fails what does not fit, wholly, keeps what was
// acknowledged, and when there is room again all goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	db := running(t, fresh(t))
	id := newSession()
	if _, err := db.Update(t.Context(), id, open(id)); err != nil {
		t.Fatal(err)
	}
	if err := db.LimitPages(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	acknowledged, err := 0, error(nil)
	for err == nil {
		if _, err = db.Update(t.Context(), id, spawn(bulky())); err == nil {
			acknowledged++
		}
	}
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a full disk was answered %v", err)
	}
	count := func(want int) {
		t.Helper()
		tasks, err := db.Tree(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) != 1+want {
			t.Errorf("there are %d tasks below the root, %d were acknowledged", len(tasks)-1, want)
		}
		checkLog(t, db, id)
	}
	count(acknowledged)
	if err := db.LimitPages(t.Context(), 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Update(t.Context(), id, spawn("more")); err != nil {
		t.Errorf("after there was room again: %v", err)
	}
	count(acknowledged + 1)
}
