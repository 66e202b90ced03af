package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/store/storetest"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]storetest.Dialect{
		"Listed":   {Fresh: fresh},
		"Unlisted": {Fresh: fresh, Opened: store.UnlistAll},
		"Early": {Fresh: func(t *testing.T) store.Config {
			c := fresh(t)
			c.EarlyRuns = true
			return c
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d.Break = breakSQLite
			d.Run(t)
		})
	}
}

func fresh(t *testing.T) store.Config {
	return store.Config{Database: filepath.Join(t.TempDir(), "coppice.db")}
}

// breakSQLite makes the schema refuse events of sessions. It goes past the store's lock,
// which only stores heed.
func breakSQLite(t *testing.T, c store.Config, of ...tree.SessionID) (mend func()) {
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
	var ids []string
	for _, id := range of {
		ids = append(ids, fmt.Sprintf("x'%x'", id[:]))
	}
	exec("CREATE TRIGGER broken BEFORE INSERT ON events WHEN NEW.session IN (" + strings.Join(ids, ", ") + `)
		BEGIN SELECT RAISE(ABORT, 'broken for a test'); END`)
	return func() { exec("DROP TRIGGER broken") }
}

// ending is a context that ends when it has been looked at so often.
type ending struct {
	context.Context
	left  atomic.Int64
	ended chan struct{}
	once  sync.Once
}

func (e *ending) Done() <-chan struct{} {
	_ = e.Err()
	return e.ended
}

func (e *ending) Err() error {
	if e.left.Add(-1) >= 0 {
		return nil
	}
	e.once.Do(func() { close(e.ended) })
	return context.Canceled
}

// TestAnOpeningIsGivenUp, at any point of it, and another one finds all in order.
func TestAnOpeningIsGivenUp(t *testing.T) {
	t.Parallel()
	of := fresh(t)
	for looks := int64(0); ; looks += 1 + looks/8 {
		ctx := &ending{Context: t.Context(), ended: make(chan struct{})}
		ctx.left.Store(looks)
		db, err := store.Open(ctx, of)
		if err == nil {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d looks: %v", looks, err)
		}
	}
}

// TestLinksLeadToOneFile: a database that is open is refused by whatever name, also if it was not
// there when it was named.
func TestLinksLeadToOneFile(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"real.db", "link.db", "chain.db", "there/real.db"} {
		t.Run(strings.ReplaceAll(first, "/", " "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for link, target := range map[string]string{"link.db": "real.db", "chain.db": filepath.Join(dir, "link.db"), "there": "."} {
				if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			running(t, store.Config{Database: filepath.Join(dir, first)})
			for _, second := range []string{"real.db", "link.db", "chain.db", "there/link.db"} {
				db, err := store.Open(t.Context(), store.Config{Database: filepath.Join(dir, second)})
				if err == nil {
					err = db.Close()
				}
				if err == nil || !strings.Contains(err.Error(), "in use by process") {
					t.Errorf("%s was opened as %s too: %v", first, second, err)
				}
			}
		})
	}
}

// TestOthersReadNoFile of a database that was made; one that was there stays as it was.
func TestOthersReadNoFile(t *testing.T) {
	t.Parallel()
	for _, want := range []fs.FileMode{0o600, 0o640} {
		c := fresh(t)
		if want != 0o600 {
			if err := errors.Join(os.WriteFile(c.Database, nil, want), os.Chmod(c.Database, want)); err != nil {
				t.Fatal(err)
			}
		}
		running(t, c)
		for _, of := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(c.Database + of)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %o, not %o", info.Name(), got, want)
			}
		}
	}
}

// TestNoSuchPlace: what can be no database says so, before anything else is made.
func TestNoSuchPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, want := range map[string]string{
		dir:                                   "opening " + dir + ": it is a directory",
		filepath.Join(dir, "none", "some.db"): "there is no directory " + filepath.Join(dir, "none"),
	} {
		if _, err := store.Open(t.Context(), store.Config{Database: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", name, err, want)
		}
	}
	if _, err := os.Lstat(dir + ".lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock was made beside a directory: %v", err)
	}
}

// TestUnusableFiles: a file that is no database of ours says so, with what to do, and stays as it is.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	program := func(statement string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		write func(t *testing.T, path string)
		want  string
	}{
		"Text": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("Dear diary, today\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a SQLite database; use another"},
		"Damaged":     {damaged, "is damaged; restore a copy of it"},
		"SameTable":   {program("CREATE TABLE sessions (cookie TEXT)"), "is the database of another program; use another"},
		"OtherTables": {program("CREATE TABLE bookmarks (url TEXT)"), "is the database of another program; use another"},
		"OtherMeta": {program("CREATE TABLE meta (k TEXT); CREATE TABLE goose_db_version (version_id INTEGER)"),
			"is the database of another program; use another"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fresh(t)
			test.write(t, c.Database)
			before, err := os.ReadFile(c.Database)
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Open(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "migrating") {
				t.Errorf("it says %v, not %s", err, test.want)
			}
			if after, err := os.ReadFile(c.Database); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file has changed: %v", err)
			}
		})
	}
}

// TestFilesThatCannotBeWritten are named, and nothing is made beside them that could not be
// written either once they can.
func TestFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 { // who may write everything
		c := fresh(t)
		if err := os.WriteFile(c.Database, nil, 0o400); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), c.Database+": permission denied") {
			t.Errorf("of a file that cannot be written it says %v", err)
		}
		if made, err := filepath.Glob(c.Database + "-*"); err != nil || len(made) > 0 {
			t.Errorf("beside it are %q, %v", made, err)
		}
	}
	for _, beside := range []string{"-wal", "-shm"} {
		c := fresh(t)
		if err := os.Mkdir(c.Database+beside, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), c.Database+beside+": is a directory") {
			t.Errorf("of what it cannot write beside it says %v", err)
		}
	}
}

// damaged writes a database of which only the first page can be read.
func damaged(t *testing.T, path string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Database: path})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for i := page; i < len(data); i++ {
		data[i] = 0xff
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestANewerFileIsRefused, as the release knows less of it than it would write, and left as it is.
func TestANewerFileIsRefused(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	open := func() error {
		db, err := store.Open(t.Context(), c)
		if err == nil {
			err = db.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", c.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	exec := func(statement string) {
		t.Helper()
		if _, err := raw.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)")
	if err := open(); err == nil || !strings.Contains(err.Error(), "later release") {
		t.Errorf("a file of a later release was opened: %v", err)
	}
	exec("DELETE FROM goose_db_version WHERE version_id = 99999")
	if err := open(); err != nil {
		t.Errorf("after the way down: %v", err)
	}
}

func TestUnnumbered(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT 1":                          "SELECT 1",
		"INSERT INTO t VALUES (?1, ?2, ?3)": "INSERT INTO t VALUES (?, ?, ?)",
		"UPDATE t SET c = ?3, d = ?4 WHERE (a, b) = (?1, ?2)":  "UPDATE t SET c = ?3, d = ? WHERE (a, b) = (?1, ?2)",
		"SELECT a FROM t WHERE b = ?1 AND c = ?1 AND d = ?2":   "SELECT a FROM t WHERE b = ? AND c = ?1 AND d = ?",
		"SELECT a FROM t WHERE b > ?2 AND c = ?1 AND d < ?12 ": "SELECT a FROM t WHERE b > ?2 AND c = ?1 AND d < ?12 ",
	} {
		if got := store.Unnumbered(text); got != want {
			t.Errorf("%s became %s, not %s", text, got, want)
		}
	}
}

// TestMigrateTags: a database of before sessions had tags goes on with the turns
// that its ready runs were given.
func TestMigrateTags(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	db, err := sql.Open("sqlite", c.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	old, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("migrations/sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`INSERT INTO meta (installation) VALUES ('old')`,
		`INSERT INTO sessions VALUES (zeroblob(15) || x'01', 'acme', '', 'a', zeroblob(16), '{}', '{}', 1, 1, 1, 2, 0, 0, 0, 0, 0, 0, 1, 1)`,
		`INSERT INTO ready VALUES (zeroblob(15) || x'01', zeroblob(15) || x'02', 1, 0, 7, 1, 0)`,
		`INSERT INTO ready VALUES (zeroblob(15) || x'01', zeroblob(15) || x'03', 1, 0, 9, 1, 0)`,
	} {
		statement = strings.NewReplacer("zeroblob(15) || x'", "x'"+strings.Repeat("00", 15), "zeroblob(16)", "x'"+strings.Repeat("00", 16)+"'").Replace(statement)
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if installation := running(t, c).Installation(); installation != "old" {
		t.Errorf("the installation is %s", installation)
	}
	var last, now int64
	err = db.QueryRowContext(t.Context(), "SELECT fair_tag, fair_now FROM sessions, meta").Scan(&last, &now)
	if err != nil || last != 9 || now != 6 {
		t.Errorf("the session's tag is %d and the present %d (%v)", last, now, err)
	}
}
