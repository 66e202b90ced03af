package store_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/store/storetest"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Dialect{Fresh: fresh, Break: breakSQLite}.Run(t)
}

func fresh(t *testing.T) store.Config {
	return store.Config{Database: filepath.Join(t.TempDir(), "coppice.db")}
}

// breakSQLite makes the schema refuse events. It goes past the store's lock,
// which only stores heed.
func breakSQLite(t *testing.T, c store.Config) (mend func()) {
	t.Helper()
	db, err := sql.Open("sqlite", c.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TRIGGER broken BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'broken for a test'); END")
	return func() { exec("DROP TRIGGER broken") }
}
