package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/internal/pgtest"
)

// TestPlans checks that PostgreSQL looks rows up by their keys from the first day on: what
// it plans while the tables are empty it goes on with when they are full. A join that
// compares rows with rows takes as long as one times the other.
func TestPlans(t *testing.T) {
	t.Parallel()
	db, err := openPostgres(t.Context(), pgtest.Start(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.close() })
	conn, err := pgx.ConnectConfig(t.Context(), db.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for name, s := range db.statements {
		for _, text := range []string{s.text, s.single} {
			if text == "" {
				continue
			}
			if plan := planOf(t, conn, name, text); strings.Contains(plan, "Join Filter") {
				t.Errorf("%s compares rows with rows:\n%s", name, plan)
			}
		}
	}
}

// planOf is what a statement is carried out by, whatever its arguments.
func planOf(t *testing.T, conn *pgx.Conn, name, text string) string {
	t.Helper()
	prepared, err := conn.Prepare(t.Context(), name, text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	explain := "EXPLAIN EXECUTE " + name
	if n := len(prepared.ParamOIDs); n > 0 {
		explain += "(NULL" + strings.Repeat(", NULL", n-1) + ")"
	}
	rows, err := conn.Query(t.Context(), explain, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err = errors.Join(err, conn.Deallocate(t.Context(), name)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.Join(lines, "\n")
}
