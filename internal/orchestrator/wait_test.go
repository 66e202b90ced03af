package orchestrator_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// setup returns a service whose loops do not run: no sweep, no announcer. A waiter learns only from
// commits.
func setup(t *testing.T) *orchestrator.Service {
	t.Helper()
	return setupWith(t, (*orchestrator.Service).Committed)
}

// setupWith is setup with another function that receives commits.
func setupWith(t *testing.T, of func(*orchestrator.Service, store.Commit)) *orchestrator.Service {
	t.Helper()
	var svc *orchestrator.Service
	db, err := store.Open(t.Context(), store.Config{
		Database: filepath.Join(t.TempDir(), "coppice.db"), Replica: "r",
		OnCommit: func(c store.Commit) { of(svc, c) },
	})
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	bus, err := dispatch.New(dispatch.Config{Client: embedded.Client(), Installation: db.Installation()})
	if err != nil {
		t.Fatal(err)
	}
	svc, err = orchestrator.New(orchestrator.Config{
		Store: db, Bus: bus, Agents: agentdef.NewLibrary(nil, ""), Replica: "r", Pool: "p", Limits: tree.DefaultLimits(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := db.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := embedded.Close(); err != nil {
			t.Error(err)
		}
	})
	return svc
}

// TestAWaiterIsWokenByTheEvent: nothing makes a waiter look again after a while, so a wait that
// ends early was ended by the commit.
func TestAWaiterIsWokenByTheEvent(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	ctx := t.Context()
	session, _, err := svc.CreateSession(ctx, "acme", orchestrator.SessionSpec{Text: "go"}, orchestrator.Idempotency{})
	if err != nil {
		t.Fatal(err)
	}
	type waited struct {
		task *tree.Task
		err  error
	}
	ended := make(chan waited)
	for range 10 {
		go func() {
			now, err := svc.WaitTask(ctx, "acme", session.ID, tree.ChildRun{}, time.Hour)
			ended <- waited{now.Task, err}
		}()
	}
	if _, _, err := svc.CancelTask(ctx, "acme", session.ID, tree.Cancel{Detail: "enough"}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if w := <-ended; w.err != nil || w.task.State != tree.StateCancelled || w.task.Detail != "enough" {
			t.Errorf("the wait gave %+v, %v", w.task, w.err)
		}
	}
}

// TestAWaitForNothing: a task that has had no run and can have none is not waited for, nor any
// longer if its session is closed meanwhile.
func TestAWaitForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testAWaitForNothing)
}

func testAWaitForNothing(t *testing.T) {
	svc := setup(t)
	session, _, err := svc.CreateSession(t.Context(), tenant, orchestrator.SessionSpec{}, orchestrator.Idempotency{})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := svc.WaitTask(t.Context(), tenant, session.ID, tree.ChildRun{}, 0); err != nil || now.Task.State != tree.StateNew {
		t.Errorf("a wait for a task that may get a message: %+v, %v", now.Task, err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		began := time.Now()
		_, err := svc.WaitTask(t.Context(), tenant, session.ID, tree.ChildRun{}, time.Hour)
		if waited := time.Since(began); !errors.Is(err, tree.ErrClosed) || waited >= time.Hour {
			t.Errorf("after %s, a wait for a task of a session that was closed meanwhile: %v", waited, err)
		}
	})
	synctest.Wait()
	if _, err := svc.CloseSession(t.Context(), tenant, session.ID, ""); err != nil {
		t.Fatal(err)
	}
	for _, timeout := range []time.Duration{0, time.Hour} {
		if _, err := svc.WaitTask(t.Context(), tenant, session.ID, tree.ChildRun{}, timeout); !errors.Is(err, tree.ErrClosed) {
			t.Errorf("a wait of %s: %v", timeout, err)
		}
	}
	waiting.Wait()
}

// TestAWaiterHearsOfItsRun: a waiter gets the run that was current when the wait began, whatever
// makes it look again, and not before the run has ended or the time is up.
func TestAWaiterHearsOfItsRun(t *testing.T) {
	t.Parallel()
	byCommits := func(svc *orchestrator.Service, _ tree.SessionID, commits []store.Commit) {
		for _, c := range commits {
			svc.Committed(c)
		}
	}
	byPoke := func(svc *orchestrator.Service, id tree.SessionID, _ []store.Commit) { svc.Poke(id) }
	for name, tell := range map[string]struct {
		begun, wake func(*orchestrator.Service, tree.SessionID, []store.Commit)
	}{
		"by the commit":                            {byPoke, byCommits},
		"by another replica":                       {byPoke, byPoke},
		"by the commit, and of its beginning":      {byCommits, byCommits},
		"by another replica, but of its beginning": {byCommits, byPoke},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var news unreportedCommits
				svc := setupWith(t, news.collect)
				ctx := t.Context()
				session, root, err := svc.CreateSession(ctx, tenant, orchestrator.SessionSpec{Text: "first"}, orchestrator.Idempotency{})
				if err != nil {
					t.Fatal(err)
				}
				tell.begun(svc, session.ID, news.take())
				mine := func() {
					t.Helper()
					if _, err := svc.WaitTask(ctx, "other", session.ID, tree.ChildRun{}, time.Minute); !errors.Is(err, tree.ErrNoSession) {
						t.Errorf("another tenant's wait: %v", err)
					}
				}
				mine()
				current, first := tree.ChildRun{}, tree.ChildRun{Task: root.ID, Run: 1}
				wait := func(of tree.ChildRun, timeout time.Duration, run int, state tree.State, status string) {
					now, err := svc.WaitTask(ctx, tenant, session.ID, of, timeout)
					if err != nil {
						t.Error(err)
						return
					}
					task, out := now.Task, now.Output
					if task.ID != root.ID || task.Run != run || task.State != state || out.Status != status || out.Prompt != "first" {
						t.Errorf("after at most %s a wait gave %+v, %+v", timeout, task, out)
					}
				}
				for _, of := range []tree.ChildRun{current, first} {
					wait(of, 0, 1, tree.StatePending, "queued")
					wait(of, time.Minute, 1, tree.StatePending, "queued")
				}
				var waiting sync.WaitGroup
				waiting.Go(func() { wait(current, time.Minute, 1, tree.StateCancelled, "cancelled") })
				waiting.Go(func() { wait(first, time.Minute, 1, tree.StateCancelled, "cancelled") })
				synctest.Wait()
				news.take()
				if _, _, err := svc.CancelTask(ctx, tenant, session.ID, tree.Cancel{Detail: "enough"}); err != nil {
					t.Fatal(err)
				}
				wait(current, 0, 1, tree.StateCancelled, "cancelled")
				if _, _, err := svc.SendMessage(ctx, tenant, session.ID, orchestrator.UserMessage{Text: "second"}, orchestrator.Idempotency{}); err != nil {
					t.Fatal(err)
				}
				tell.wake(svc, session.ID, news.take())
				waiting.Wait()
				wait(first, time.Minute, 1, tree.StateCancelled, "cancelled")
				mine()
			})
		})
	}
}
