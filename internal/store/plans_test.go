package store

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/internal/pgtest"
)

// byKey are statements that look for what they are given the key of.
var byKey = []string{
	"session", "session_of_tenant", "session_there", "sessions", "task", "task_of_tenant", "tasks", "root", "standing", "asked_and_answered", "messages", "runs",
}

// byHost are statements that look for callbacks by the host that they call, in the order that
// the index has.
var byHost = map[string]string{
	"callbacks_hosts": "callbacks", "callbacks_due": "callbacks", "asked_hosts": "approvals", "asked_due": "approvals",
}

// filtersKeys finds where a part of a key is only compared, in rows that were found by the rest of
// it: of a table that is next to empty that is as good.
var filtersKeys = regexp.MustCompile(`Filter: .*\b(task|id|parent|message|block|seq|ordinal|run|target|target_run) = (ANY|[a-z]+\.)`)

// byIndex are statements that look for what they are given a part of an index of, and how
// SQLite says that it looks there.
var byIndex = map[string]string{
	"below": "t USING COVERING INDEX tasks_children (session=? AND parent=?)", "children_page": "tasks_children (session=? AND parent=? AND id>?)",
	"inbox": "inbox_task (session=? AND task=?)",
}

// ofReady are statements about runs that wait, and the index that each part of one is read by: by
// the key a part would go through all that wait.
var ofReady = map[string][]string{
	"ready_any":   {"ready_queue", "ready_announced", "ready_announced", "ready_held", "ready_first", "ready_announced"},
	"ready_first": {"ready_first"}, "ready_held": {"ready_held"}, "ready_due": {"ready_queue"}, "ready_expired": {"ready_announced"},
}

// readBy finds in a plan of PostgreSQL by which index runs that wait are read.
var readBy = regexp.MustCompile(`using (\w+) on ready\b`)

// ofLastRun is what is compared in the row of a task, found by its key: a run is not part of that.
var ofLastRun = regexp.MustCompile(`Filter: \(\(state >= \d+\) AND \(run = [a-z_.]+\)\)`)

// TestPlans: a database that has counted nothing yet, or next to nothing, finds by its key
// what has one; what it plans while the tables are empty it goes on with when they are full.
// Any other index would do as well, it would think, and read a whole session or all of a
// tenant's; and to compare the rows of two tables takes as long as the one times the other.
func TestPlans(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := planned(t, pgtest.Start(t).Database(t)).(*postgres)
		conn, err := pgx.ConnectConfig(t.Context(), db.config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		look := func(when string) {
			for name, s := range db.statements {
				for _, text := range []string{s.text, s.single} {
					if text == "" {
						continue
					}
					switch plan := planOf(t, conn, name, text); {
					case strings.Contains(plan, "Join Filter"):
						t.Errorf("%s, %s compares rows with rows:\n%s", when, name, plan)
					case filtersKeys.MatchString(ofLastRun.ReplaceAllString(plan, "")):
						t.Errorf("%s, %s reads more than it looks for:\n%s", when, name, plan)
					}
				}
			}
			for _, name := range byKey {
				if plan := planOf(t, conn, name, db.statements[name].text); !isKeyed(plan) {
					t.Errorf("%s, %s is carried out so:\n%s", when, name, plan)
				}
			}
			for name := range byIndex {
				if plan := planOf(t, conn, name, db.statements[name].text); !strings.Contains(plan, "Index Cond: ((session = $1) AND (") {
					t.Errorf("%s, %s is carried out so:\n%s", when, name, plan)
				}
			}
			for name, indexes := range ofReady {
				plan := planOf(t, conn, name, db.statements[name].text)
				var used []string
				for _, m := range readBy.FindAllStringSubmatch(plan, -1) {
					used = append(used, m[1])
				}
				if !slices.Equal(used, indexes) || strings.Contains(strings.ReplaceAll(plan, "Sort Key: due.", ""), "Sort Key: ") {
					t.Errorf("%s, %s is carried out so:\n%s", when, name, plan)
				}
			}
			for name, table := range byHost {
				plan := planOf(t, conn, name, db.statements[name].text)
				if !strings.Contains(plan, table+"_host on "+table) || strings.Contains(plan, "Sort") || strings.Contains(plan, "Filter: ((due") || strings.Contains(plan, "Filter: ((call_due") {
					t.Errorf("%s, %s is carried out so:\n%s", when, name, plan)
				}
			}
		}
		look("with nothing counted")
		if _, err := conn.Exec(t.Context(), "VACUUM"); err != nil {
			t.Fatal(err)
		}
		look("counted while empty")
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		db := planned(t, filepath.Join(t.TempDir(), "coppice.db")).(*sqlite)
		for _, name := range byKey {
			plan := db.plan(t, name).String()
			if strings.Contains(plan, "USING INDEX") || strings.Contains(plan, "SCAN tasks") || strings.Contains(plan, "SCAN sessions") {
				t.Errorf("%s is carried out so:\n%s", name, plan)
			}
		}
		for name, look := range byIndex {
			if plan := db.plan(t, name).String(); !strings.Contains(plan, look) {
				t.Errorf("%s is carried out so:\n%s", name, plan)
			}
		}
		for name, text := range db.texts {
			if !strings.Contains(text, "SELECT") {
				continue
			}
			if plan := db.plan(t, name); plan.comparesRows() {
				t.Errorf("%s compares rows with rows:\n%s", name, plan)
			}
		}
		for name, table := range byHost {
			plan := db.plan(t, name).String()
			if !strings.Contains(plan, "INDEX "+table+"_host (<expr>") || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s is carried out so:\n%s", name, plan)
			}
		}
	})
}

// isKeyed reports whether a plan of PostgreSQL scans tables by their keys only.
func isKeyed(plan string) bool {
	scans, keyed := strings.Count(plan, " on "), strings.Count(plan, "_pkey on ")
	return keyed > 0 && scans == keyed+strings.Count(plan, "Function Scan on ")+strings.Count(plan, "CTE Scan on ")+strings.Count(plan, "Subquery Scan on ")
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

// litePlan is what SQLite says that it will do, step by step.
type litePlan []liteStep

// liteStep is a step of a plan. Those of one whole that read a table each are loops, each
// within the one before.
type liteStep struct {
	of   int
	text string
}

func (p litePlan) String() string {
	var texts []string
	for _, s := range p {
		texts = append(texts, s.text)
	}
	return strings.Join(texts, "\n")
}

// comparesRows reports whether all of a table is read for each row of another.
func (p litePlan) comparesRows() bool {
	looped := map[int]bool{}
	for _, s := range p {
		scans := strings.HasPrefix(s.text, "SCAN ")
		if scans && looped[s.of] {
			return true
		}
		looped[s.of] = looped[s.of] || scans || strings.HasPrefix(s.text, "SEARCH ")
	}
	return false
}

func (db *sqlite) plan(t *testing.T, name string) (plan litePlan) {
	t.Helper()
	text := db.texts[name]
	rows, err := db.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	err = eachSQLRow(rows, func(row row) error {
		var s liteStep
		err := row.Scan(new(int), &s.of, new(int), &s.text)
		plan = append(plan, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
