package store_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
)

// TestUpgradeBesideOthers: the migration that takes the counting of versions away holds no table that somebody needs
// who has the other, and can be made again if it was cut short.
func TestUpgradeBesideOthers(t *testing.T) {
	t.Parallel()
	const before = 30
	url := pgtest.Start(t).Database(t)
	replicas(t, url, 1)
	raw, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	migrations, err := goose.NewProvider(goose.DialectPostgres, raw, os.DirFS("migrations/postgres"))
	if err != nil {
		t.Fatal(err)
	}
	back := func() {
		t.Helper()
		if _, err := migrations.DownTo(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		if n := counters(t, raw); n != 2 {
			t.Fatalf("on the way down %d triggers count versions, not 2", n)
		}
	}
	back()
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(table string) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), "LOCK TABLE "+table+" IN ROW EXCLUSIVE MODE NOWAIT"); err != nil {
			t.Error(err)
		}
	}
	lock("sessions")
	upgrade := func() error {
		db, err := store.Open(t.Context(), store.Config{Database: url, Replica: "new"})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	upgraded := make(chan error, 1)
	go func() { upgraded <- upgrade() }()
	awaitWaiting(t, connect(t, url))
	lock("tasks")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-upgraded; err != nil {
		t.Fatal(err)
	}
	back()
	if _, err := raw.ExecContext(t.Context(), "DROP TRIGGER tasks_version ON tasks"); err != nil {
		t.Fatal(err)
	}
	if err := upgrade(); err != nil {
		t.Errorf("made again: %v", err)
	}
	if n := counters(t, raw); n != 0 {
		t.Errorf("%d triggers still count versions", n)
	}
}

// counters counts the triggers that count versions.
func counters(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_trigger WHERE tgname LIKE '%\_version'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
