package store_test

import (
	"database/sql"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
)

var update = flag.Bool("update", false, "write what the migrations make into its file")

// TestNewSchema: a new database is as if each migration had been made, and those that come later
// are.
func TestNewSchema(t *testing.T) {
	t.Parallel()
	const file = "migrations/sqlite.sql"
	migrated, err := sql.Open("sqlite", fresh(t).Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { migrated.Close() })
	migrations, err := goose.NewProvider(goose.DialectSQLite3, migrated, os.DirFS("migrations/sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "-- What the migrations make of an empty database. Written by:\n-- go test ./internal/store -run TestNewSchema -update\n\n" +
		texts(t, migrated, "SELECT sql || ';' FROM sqlite_schema WHERE sql NOT NULL AND name NOT IN ('sqlite_sequence', 'goose_db_version') ORDER BY rowid")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return // what the programs embed is still the old one
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the migrations make: go test ./internal/store -run TestNewSchema -update (%v)", file, err)
	}
	for table := range strings.Lines(texts(t, migrated, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('sqlite_sequence', 'goose_db_version')")) {
		if rows := texts(t, migrated, "SELECT count(*) FROM "+table); rows != "0\n" {
			t.Errorf("the migrations leave rows in %s, which a new database lacks: %s", table, rows)
		}
	}

	c := fresh(t)
	running(t, c)
	made, err := sql.Open("sqlite", c.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { made.Close() })
	for _, all := range []string{
		"SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1",
		"SELECT version_id || ' ' || is_applied FROM goose_db_version ORDER BY version_id",
	} {
		if got, want := texts(t, made, all), texts(t, migrated, all); got != want {
			t.Errorf("%s: a new database has\n%s\nmigrations make\n%s", all, got, want)
		}
	}
}

// texts gives the lines of a query.
func texts(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		all.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all.String()
}
