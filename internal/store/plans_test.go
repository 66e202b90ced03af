package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/pgtest"
)

// byKey are statements that look for what they are given the key of.
var byKey = []string{
	"session", "session_of_tenant", "sessions", "task", "task_of_tenant", "tasks", "root", "standing", "asked_and_answered", "messages", "runs",
}

// TestPlans: a database that has counted nothing yet finds by its key what has one. Any
// other index would do as well, it would think, and read a whole session or all of a
// tenant's.
func TestPlans(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := planned(t, pgtest.Start(t).Database(t)).(*postgres)
		for _, name := range byKey {
			plan := strings.Join(db.plan(t, name), "\n")
			if scans, keyed := strings.Count(plan, " on "), strings.Count(plan, "_pkey on "); keyed == 0 ||
				scans != keyed+strings.Count(plan, "Function Scan on ")+strings.Count(plan, "CTE Scan on ") {
				t.Errorf("%s is carried out so:\n%s", name, plan)
			}
		}
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		db := planned(t, filepath.Join(t.TempDir(), "coppice.db")).(*sqlite)
		for _, name := range byKey {
			plan := strings.Join(db.plan(t, name), "\n")
			if strings.Contains(plan, "USING INDEX") || strings.Contains(plan, "SCAN tasks") || strings.Contains(plan, "SCAN sessions") {
				t.Errorf("%s is carried out so:\n%s", name, plan)
			}
		}
	})
}

func planned(t *testing.T, name string) database {
	s, err := Open(t.Context(), Config{Database: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.db
}

// plan is the one that the server makes for whatever it is given.
func (db *postgres) plan(t *testing.T, name string) []string {
	s := db.statements[name]
	given := strings.TrimSuffix(strings.Repeat("NULL, ", parameters(s.text)), ", ")
	conn, err := db.reads.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, statement := range []string{"DEALLOCATE ALL", fmt.Sprintf("PREPARE planned AS %s", s.text)} {
		if _, err := conn.Conn().PgConn().Exec(t.Context(), statement).ReadAll(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	results, err := conn.Conn().PgConn().Exec(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE planned (%s)", given)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var lines []string
	for _, row := range results[0].Rows {
		lines = append(lines, string(row[0]))
	}
	return lines
}

func (db *sqlite) plan(t *testing.T, name string) (lines []string) {
	text := db.texts[name]
	rows, err := db.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, parameters(text))...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	err = eachSQLRow(rows, func(row row) error {
		var line string
		err := row.Scan(new(int), new(int), new(int), &line)
		lines = append(lines, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// parameters counts those of a statement.
func parameters(text string) (n int) {
	for strings.Contains(text, fmt.Sprint("$", n+1)) || strings.Contains(text, fmt.Sprint("?", n+1)) {
		n++
	}
	return n
}
