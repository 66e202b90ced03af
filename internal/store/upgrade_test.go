package store_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestUpgradeBesideOthers: the migration that takes the counting of versions away holds no table that somebody needs
// who has the other, and can be made again if it was cut short.
func TestUpgradeBesideOthers(t *testing.T) {
	t.Parallel()
	const before = 30
	url := pgtest.Start(t).Database(t)
	replicas(t, url, 1)
	raw, migrations := migrationsOf(t, url)
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

// migrationsOf gives a database and its migrations.
func migrationsOf(t *testing.T, url string) (*sql.DB, *goose.Provider) {
	t.Helper()
	raw, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	migrations, err := goose.NewProvider(goose.DialectPostgres, raw, os.DirFS("migrations/postgres"))
	if err != nil {
		t.Fatal(err)
	}
	return raw, migrations
}

// TestANonceOfTheReleaseBefore: a worker finds a run that the release before has given to it, which
// does not know the nonce in attempts.
func TestANonceOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).Database(t)
	db := replicas(t, url, 1)[0]
	raw, _ := migrationsOf(t, url)
	id, root := waiting(t, db)
	claimed := tree.Claim{Task: root, Token: tree.Token{Epoch: 1, Nonce: 7}, Worker: "w"}
	if _, err := db.Update(t.Context(), id, claimed); err != nil {
		t.Fatal(err)
	}
	// What the release before writes if it ends the attempt and claims the run again in one transaction.
	for _, statement := range []string{
		"UPDATE attempts SET epoch = 2, worker = 'other'",
		fmt.Sprintf("UPDATE tasks SET state = %d, epoch = 2, nonce = 8, worker = 'other'", tree.StateRunning),
	} {
		if _, err := raw.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for nonce, want := range map[uint64]int{7: 0, 8: 1} {
		found, err := db.AttemptsByNonce(t.Context(), "other", nonce)
		if err != nil || len(found) != want {
			t.Errorf("there are %d attempts with the nonce %d, not %d (%v)", len(found), nonce, want, err)
		}
	}
}

// TestALaterSchemaIsSaid, and used: replicas of both releases may be there while they are replaced.
func TestALaterSchemaIsSaid(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).Database(t)
	opened := func() string {
		t.Helper()
		var said bytes.Buffer
		db, err := store.Open(t.Context(), store.Config{Database: url, Replica: "old", Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		end(t, db)
		return said.String()
	}
	const warning = `level=WARN msg="a later release has migrated the schema of the database"`
	if said := opened(); strings.Contains(said, warning) {
		t.Errorf("of its own schema it said %s", said)
	}
	if _, err := connect(t, url).Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	if said := opened(); !strings.Contains(said, warning) || !strings.Contains(said, "schema=99999") {
		t.Errorf("of a later schema it said %q", said)
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
