package store_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestEachRunHasARowAgain: the way down gives a row to how a task's last run has ended, and
// leaves those that are there.
func TestEachRunHasARowAgain(t *testing.T) {
	t.Parallel()
	const before = 25
	for _, test := range []struct {
		dialect, driver string
		goose           goose.Dialect
		config          func(t *testing.T) store.Config
	}{
		{"sqlite", "sqlite", goose.DialectSQLite3, fresh},
		{"postgres", "pgx", goose.DialectPostgres, func(t *testing.T) store.Config {
			return store.Config{Database: pgtest.Start(t).Database(t)}
		}},
	} {
		t.Run(test.dialect, func(t *testing.T) {
			t.Parallel()
			c := test.config(t)
			db := running(t, c)
			store.ReadByAll(db)
			id, root := has(t, db, 1)
			raw, err := sql.Open(test.driver, c.Database)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { raw.Close() })
			from := tree.From{Task: root, Token: tree.Token{Epoch: 1, Nonce: 1}, Attach: 1, Seq: 3}
			for _, cmd := range []tree.Command{
				tree.End{From: from, Answer: says("the first")}, tree.Send{Message: says("more").Blocks}, tree.Cancel{},
			} {
				if _, err := db.Update(t.Context(), id, cmd); err != nil {
					t.Fatal(err)
				}
			}
			if n := count(t, raw, "runs", id); n != 1 {
				t.Errorf("of two runs %d have a row, want the first alone", n)
			}
			migrations, err := goose.NewProvider(test.goose, raw, os.DirFS("migrations/"+test.dialect))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := migrations.DownTo(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			var state tree.State
			err = raw.QueryRowContext(t.Context(), "SELECT state FROM runs WHERE session = $1 AND run = 2", id[:]).Scan(&state)
			if n := count(t, raw, "runs", id); n != 2 || err != nil || state != tree.StateCancelled {
				t.Errorf("on the way down there are %d rows, and the second run has ended %s, %v", n, state, err)
			}
		})
	}
}
