package store

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestShared: rows are stored as they are, whichever of their columns are equal in all of them, and
// no more variants of a statement are made than a connection may have.
func TestShared(t *testing.T) {
	t.Parallel()
	db, err := openPostgres(t.Context(), pgtest.Start(t).Database(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.close() })
	w := db.writer(time.Minute).(*pgWriter)
	const rows = shareFrom
	then := time.UnixMicro(1_000_000).UTC()
	for i := taskTable.keys; i < len(taskTable.columns); i++ {
		for _, differs := range []bool{false, true} { // one column has another value, in all rows or in one
			session := tree.SessionID(uuid.Must(uuid.NewV7()))
			stored := map[tree.TaskID]*tree.Task{}
			var args [][]any
			for n := range rows {
				task := &tree.Task{Session: session, ID: tree.TaskID(uuid.Must(uuid.NewV7())), CreatedAt: then}
				task.MovedAt, task.AcceptedAt = then, then
				if !differs || n == 0 {
					alter(t, taskRow(task)[i])
				}
				stored[task.ID] = task
				args = append(args, taskRow(task))
			}
			found := map[tree.TaskID]*tree.Task{}
			err := w.transact(t.Context(), func(tx transaction) error {
				if err := tx.save(t.Context(), "add_tasks", args...); err != nil {
					return err
				}
				return tx.load(t.Context(), lookup{"tree", [][]any{{idColumn(&session)}}, func(row row) error {
					task := &tree.Task{}
					err := row.Scan(taskRow(task)...)
					found[task.ID] = task
					return err
				}})
			}, func() {})
			if err != nil || len(found) != rows {
				t.Fatalf("%s: %d rows are stored, %v", taskTable.columns[i], len(found), err)
			}
			for id, task := range stored {
				if got, want := taskRow(found[id]), taskRow(task); !slices.EqualFunc(got, want, sameValue) {
					t.Fatalf("%s: stored is %+v, not %+v", taskTable.columns[i], found[id], task)
				}
			}
		}
	}
	s := db.statements["add_tasks"]
	made := w.variants[s.text]
	if len(made) != maxVariants {
		t.Errorf("there are %d variants, not %d", len(made), maxVariants)
	}
	for _, text := range made {
		if !strings.Contains(text, "unnest($1::bytea[]), unnest($2::bytea[])") || strings.Count(text, "unnest(") > taskTable.keys+1 {
			t.Errorf("a variant is %s", text)
		}
	}
}
