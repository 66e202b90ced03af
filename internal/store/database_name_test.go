package store_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
)

// TestNoDatabase: what looks like the address of a server is no file's name, and nothing of it is
// said, whoever reads it and finds it wrong.
func TestNoDatabase(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{
		"host=db.internal user=coppice password=geheim-1 dbname=coppice",
		"password=geheim-1",
		"Host = db.internal Password = 'geheim-1'",
		"connect=geheim-1 a=2",
		"mysql://coppice:geheim-1@db/coppice",
		"postgre://coppice:geheim-1@db/coppice",
		"coppice:geheim-1@db/coppice",
		"coppice:geheim-1@tcp(db:3306)/coppice",
		"postgres://coppice:geheim-1/x@db/coppice",
		"POSTGRES://coppice:geheim-1/x@db/coppice",
		"postgres://coppice:1234/geheim-1@db/coppice",
		"postgres://coppice:a%zzgeheim-1@db/coppice",
		"postgres://coppice@db/coppice?sslmode=other",
		":memory:",
		"./:memory:",
	} {
		_, err := store.Open(t.Context(), store.Config{Database: name})
		if !errors.Is(err, store.ErrNoDatabase) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("there are files: %v, %v", files, err)
	}
}

// TestDatabases: paths of files may look strange.
func TestDatabases(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"coppice.db", "a=b.db", "my user.db", "./u:p@h.db", "a@b.db"} {
		db, err := store.Open(t.Context(), store.Config{Database: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		end(t, db)
	}
}

// TestPostgresConnections: how many connections read has a bound, however many processors there
// are, unless the URL has one.
func TestPostgresConnections(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]int32{
		"postgres://db/coppice":                                     store.MaxReadConns,
		"postgres://db/coppice?pool_max_conns=23":                   23,
		"postgres://db/coppice?sslmode=disable&pool_max_conns=%32":  2,
		"postgres://db/coppice?pool_min_conns=1&application_name=a": store.MaxReadConns,
	} {
		if got, err := store.ReadsOf(url); err != nil || got != want {
			t.Errorf("%s: %d connections, %v, want %d", url, got, err, want)
		}
	}
}

// TestASchemeIsWritten in small letters or not.
func TestASchemeIsWritten(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).Database(t)
	upper := strings.Replace(url, "postgres", "PostgreSQL", 1)
	if !store.Shared(upper) || upper == url {
		t.Errorf("%s is no database on a server", upper)
	}
	db, err := store.Open(t.Context(), store.Config{Database: upper})
	if err != nil {
		t.Fatal(err)
	}
	end(t, db)
}

// end runs a store for no time, and closes it.
func end(t *testing.T, db *store.Store) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(db.Run(ended), db.Close()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
