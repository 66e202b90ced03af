package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/tree"
)

// glanced opens several stores on one new database, which commit until the test ends.
func glanced(t *testing.T, n int) []*Store {
	t.Helper()
	url := pgtest.Start(t).Database(t)
	dbs := make([]*Store, n)
	ctx, stop := context.WithCancel(context.Background())
	var committing sync.WaitGroup
	for i := range dbs {
		db, err := Open(t.Context(), Config{Database: url, Replica: string(rune('a' + i))})
		if err != nil {
			t.Fatal(err)
		}
		dbs[i] = db
		committing.Go(func() {
			if err := db.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		committing.Wait()
		for _, db := range dbs {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return dbs
}

func opening() tree.CreateSession {
	return tree.CreateSession{
		ID: tree.SessionID(uuid.Must(uuid.NewV7())), Tenant: "acme", Limits: tree.DefaultLimits(),
		Agent: &tree.Agent{Name: "general", Version: "1", Mode: tree.ModeBoth}, Message: []tree.Block{tree.Text{Text: "go"}},
	}
}

// TestGlancesTogether: looks that go together find what each would by itself. One that
// fails has those that come after it look by themselves, and takes nothing from those
// before; one that nobody waits for is left out.
func TestGlancesTogether(t *testing.T) {
	t.Parallel()
	db := glanced(t, 1)[0]
	session, root, err := db.Create(t.Context(), nil, opening(), nil)
	if err != nil {
		t.Fatal(err)
	}
	type look struct {
		*pendingRead
		found []TaskStatus
	}
	g := &db.db.(*postgres).coalescer
	ask := func(tenant string) *look {
		l := &look{}
		l.pendingRead = g.enqueue([]lookup{all(&l.found, "standing", standingRow, idColumn(&session.ID), tenant, idColumn(&tree.TaskID{}))})
		return l
	}
	for range maxReadTrips {
		if l := ask("acme"); l.pendingRead != nil {
			t.Fatal("a look had to wait while there was room")
		}
	}
	mine, others, gone := ask("acme"), ask("other"), ask("acme")
	gone.abandoned.Store(true)
	wrong, after := ask("nul\x00"), ask("acme")
	for range maxReadTrips {
		g.sendWaiting()
	}
	for _, c := range []struct {
		what string
		*look
		err  error
		rows int
	}{
		{"mine", mine, nil, 1}, {"another tenant's", others, errReadAlone, 0}, {"one that nobody waits for", gone, errReadAlone, 0},
		{"a wrong one", wrong, errReadAlone, 0}, {"one after it", after, errReadAlone, 0},
	} {
		if err := <-c.done; !errors.Is(err, c.err) || len(c.found) != c.rows {
			t.Errorf("%s: %v, %v", c.what, c.found, err)
		}
	}
	if mine.found[0] != TaskStatusOf(root) {
		t.Errorf("%+v was found, not %+v", mine.found[0], root)
	}
	if at, err := db.TaskStatus(t.Context(), "acme", session.ID, root.ID); err != nil || at != TaskStatusOf(root) {
		t.Errorf("afterwards: %+v, %v", at, err)
	}
}

// TestGlancesSee: whoever looks sees what another replica has committed before, however
// many look, and whatever they ask for.
func TestGlancesSee(t *testing.T) {
	t.Parallel()
	const callers, rounds = 16, 10
	dbs := glanced(t, 2)
	gone, leave := context.WithCancel(t.Context())
	leave()
	var looking sync.WaitGroup
	for range callers {
		looking.Go(func() {
			for range rounds {
				cmd := opening()
				if _, _, err := dbs[0].Create(t.Context(), nil, cmd, nil); err != nil {
					t.Error(err)
					return
				}
				if at, err := dbs[1].TaskStatus(t.Context(), "acme", cmd.ID, tree.TaskID{}); err != nil || at.State != tree.StatePending {
					t.Errorf("a session that was opened elsewhere: %+v, %v", at, err)
				}
				if _, err := dbs[1].TaskStatus(t.Context(), "nul\x00", cmd.ID, tree.TaskID{}); err == nil || errors.Is(err, errReadAlone) {
					t.Errorf("a look that the database refuses: %v", err)
				}
				if _, err := dbs[1].TaskStatus(gone, "acme", cmd.ID, tree.TaskID{}); err == nil {
					t.Error("a look was made for nobody")
				}
				if _, err := dbs[0].Update(t.Context(), cmd.ID, tree.Cancel{Detail: "enough"}); err != nil {
					t.Error(err)
				}
				task, out, err := dbs[1].TaskAndOutput(t.Context(), "acme", cmd.ID, tree.TaskID{})
				if err != nil || task.State != tree.StateCancelled || out.Error != "enough" || out.Prompt != "go" {
					t.Errorf("a run that was ended elsewhere: %+v, %+v, %v", task, out, err)
				}
			}
		})
	}
	looking.Wait()
}
