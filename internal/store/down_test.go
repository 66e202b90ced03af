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

// TestTheWayDown: an earlier release finds a row of how each run has ended, each packed result in one
// piece, each claim in the row of its task, the end of each child in the row of its call, and a row
// of each run that waits.
func TestTheWayDown(t *testing.T) {
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
			store.UnlistAll(db)
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
			if n := pieces(t, raw); (n > 0) != (test.dialect == "postgres") {
				t.Errorf("%d results are in two pieces", n)
			}
			if state := claimIn(t, raw, db); state != tree.StatePending {
				t.Errorf("the row of a task whose run is claimed has the state %v already", state)
			}
			if state := settledIn(t, raw, db); state != tree.CallWaiting {
				t.Errorf("the row of a call whose child has ended has the state %v already", state)
			}
			waits := newSession()
			var spawned tree.Answer
			for _, cmd := range []tree.Command{open(waits), spawn("wait"), spawn("run")} {
				if spawned, err = db.Update(t.Context(), waits, cmd); err != nil {
					t.Fatal(err)
				}
			}
			claim := tree.Claim{Task: spawned.(tree.Spawned).Task, Token: tree.Token{Epoch: 1, Nonce: 9}, Worker: "w-2"}
			if _, err := db.Update(t.Context(), waits, claim); err != nil {
				t.Fatal(err)
			}
			if n := count(t, raw, "ready", waits); n != 0 {
				t.Errorf("a run that waits has %d rows already", n)
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
			if n := pieces(t, raw); n > 0 {
				t.Errorf("on the way down %d results are in two pieces", n)
			}
			if n := count(t, raw, "ready", waits); n != 1 {
				t.Errorf("on the way down a run that waits has %d rows, not 1", n)
			}
			if n := counted(t, raw, "ready JOIN attempts ON attempts.session = ready.session AND attempts.task = ready.task"); n > 0 {
				t.Errorf("on the way down %d runs that are claimed wait", n)
			}
			reads(t, db, id, root, 1)
			if n := counted(t, raw, "tasks WHERE state = $1 AND nonce = 7 AND worker = 'w'", tree.StateRunning); n != 1 {
				t.Errorf("on the way down %d tasks say who has claimed their run, not 1", n)
			}
			if n := counted(t, raw, "calls WHERE state <> $1", tree.CallClosed); n > 0 {
				t.Errorf("on the way down %d calls are not closed, though their children have ended", n)
			}
		})
	}
}

// pieces counts the results that are packed in two pieces.
func pieces(t *testing.T, db *sql.DB) int {
	t.Helper()
	return counted(t, db, "calls WHERE packed IS NOT NULL AND text <> '(packed)'")
}
