package store_test

import (
	"path/filepath"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestSpawnWithItsAnswer: calls that are spawned together with the answer that makes them are not
// looked up.
func TestSpawnWithItsAnswer(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Config{Database: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	looks := store.CountLooks(db)
	commits(t, db)
	a := beginAttempt(t, db)
	for _, calls := range []int{2, 5, 3} { // more than before, and fewer
		sent := []*store.Pending{
			db.Prepare(a.session, tree.AppendAnswer{From: a.next(), Message: asks(calls)}, nil),
			db.Prepare(a.session, tree.SpawnCalls{From: a.next(), Children: lookers(calls)}, nil),
		}
		if err := db.Queue(t.Context(), sent...); err != nil {
			t.Fatal(err)
		}
		for _, p := range sent {
			if _, err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		a.answerCalls(t, calls)
	}
	if asked, _ := looks.Of("calls"); asked > 0 {
		t.Errorf("%d calls were looked up", asked)
	}
}
