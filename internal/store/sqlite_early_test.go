package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// early is a store whose log is synced by the test.
type early struct {
	*store.Store
	commits atomic.Int64   // that OnCommit was told of
	first   *store.Pending // of the worker, together with request
	request *store.Pending // gives its run back, and gets another one
	other   *store.Pending // of somebody else, in the same transaction
	ended   chan error     // that of Run
}

// runEarly queues commands for one transaction, whose sync is the test's.
func runEarly(t *testing.T, local bool, sync func(e *early, sync func() error) error) *early {
	t.Helper()
	e, c := &early{ended: make(chan error, 1)}, fresh(t)
	c.EarlyRuns, c.AnnounceOnCommit, c.OnCommit = true, true, func(store.Commit) { e.commits.Add(1) }
	var err error
	if e.Store, err = store.Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var intercept atomic.Pointer[func(func() error) error]
	store.InterceptSync(e.Store, func(sync func() error) error {
		if f := intercept.Swap(nil); f != nil {
			return (*f)(sync)
		}
		return sync()
	})
	ctx, stop := context.WithCancel(t.Context())
	go func() { e.ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-e.ended
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})

	a, next := beginAttempt(t, e.Store), newSession()
	ready := open(next)
	ready.Message = []tree.Block{tree.Text{Text: "go"}}
	answer, err := e.Update(t.Context(), next, ready)
	if err != nil {
		t.Fatal(err)
	}
	e.request = e.Prepare(a.session, tree.End{
		From: a.next(), Answer: &tree.Message{Blocks: []tree.Block{tree.Text{Text: "found"}}, Model: "m-1", Stop: tree.StopEndTurn},
	}, &store.Offer{
		Worker: "w", Nonce: 2, Local: local, IdleSlots: 1, Next: store.Announced{Session: next, Task: answer.(tree.Created).Root, Epoch: 1},
	})
	e.first = e.Prepare(a.session, tree.Claim{Task: a.from.Task, Token: tree.Token{Epoch: 2}, Worker: "w"}, nil) // refused
	e.other = e.Prepare(next, spawn("go"), nil)
	// While the sync of another commit lasts, all are queued, and so they share the next one.
	beside := func(own func() error) error {
		ofAll := func(own func() error) error { return sync(e, own) }
		intercept.Store(&ofAll)
		return errors.Join(e.Queue(t.Context(), e.first, e.request), e.Queue(t.Context(), e.other), own())
	}
	intercept.Store(&beside)
	third := newSession()
	if _, err := e.Update(t.Context(), third, open(third)); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEarlyRuns: while a commit is not durable yet, only a worker of this process hears of it.
func TestEarlyRuns(t *testing.T) {
	t.Parallel()
	for name, local := range map[string]bool{"a worker of this process": true, "another worker": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := make(chan error, 1)
			e := runEarly(t, local, func(e *early, sync func() error) error {
				if first, last := store.IsDone(e.first), store.IsDone(e.request); first != local || last != local {
					t.Errorf("before the sync the worker was answered: %v, %v", first, last)
				}
				if store.IsDone(e.other) {
					t.Error("before the sync somebody else was answered")
				}
				before := e.commits.Load()
				go func() {
					_, err := e.Conversation(t.Context(), "", tree.SessionID{}, tree.TaskID{})
					read <- err
				}()
				select {
				case err := <-read:
					t.Error("something was read that is not durable")
					read <- err
				case <-time.After(50 * time.Millisecond):
				}
				if after := e.commits.Load(); after != before {
					t.Error("before the sync the commit was reported")
				}
				return sync()
			})
			if _, err := e.first.Wait(t.Context()); !errors.Is(err, tree.ErrNotReady) {
				t.Errorf("the claim of a run that is not ready was answered %v", err)
			}
			for _, p := range []*store.Pending{e.request, e.other} {
				if _, err := p.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := <-read; tree.CodeOf(err) != tree.CodeNotFound {
				t.Errorf("the read gave %v", err)
			}
			if granted, err := e.request.NextRun(); granted == nil {
				t.Errorf("the worker got no run: %v", err)
			}
		})
	}
}

// TestTheLogCannotBeSynced: what is durable is not known then, so nothing is read or written any more.
func TestTheLogCannotBeSynced(t *testing.T) {
	t.Parallel()
	broken := errors.New("input/output error")
	e := runEarly(t, true, func(*early, func() error) error { return broken })
	if _, err := e.request.Wait(t.Context()); err != nil {
		t.Errorf("who had its run already was told %v", err)
	}
	if _, err := e.other.Wait(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the commit was answered %v", err)
	}
	err := <-e.ended
	if !errors.Is(err, broken) {
		t.Errorf("the store ended with %v", err)
	}
	e.ended <- err
	again := newSession()
	if _, err := e.Update(t.Context(), again, open(again)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a command was answered %v", err)
	}
	if _, err := e.Tree(t.Context(), again); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a read was answered %v", err)
	}
}
