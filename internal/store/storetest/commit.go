package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// submitted queues commands, in order.
func (b *bundle) submitted(id tree.SessionID, cmds ...tree.Command) []*store.Pending {
	b.t.Helper()
	var queued []*store.Pending
	for _, cmd := range cmds {
		p, err := b.Submit(b.t.Context(), id, cmd)
		if err != nil {
			b.t.Fatal(err)
		}
		queued = append(queued, p)
	}
	return queued
}

// groupCommit: everything that has queued becomes one transaction, for many sessions.
func groupCommit(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.Committers = 1
	b := d.opened(t, c)
	var queued []*store.Pending
	for n := range 20 {
		queued = append(queued, b.submitted(session(n), create(n), tree.Send{Message: say("hello")})...)
	}
	b.run()
	for _, p := range queued {
		must[tree.Answer](t)(p.Wait(b.t.Context()))
	}
	b.stop()
	told := b.committed()
	if len(told) != 1 || len(told[0].Sessions) != 20 || len(told[0].Ready) != 20 {
		t.Fatalf("the hook was told %+v, not of one commit of 20 sessions with a ready run each", told)
	}
	for n, touched := range told[0].Sessions {
		eq(t, "the session", touched.Session, session(n))
		eq(t, "its last event", touched.LastSeq, b.events(session(n)))
	}
}

// batchBound: a transaction has at most the configured number of commands.
func batchBound(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.MaxBatch, c.Committers = 8, 1
	b := d.opened(t, c)
	var queued []*store.Pending
	for n := range 20 {
		queued = append(queued, b.submitted(session(n), create(n))...)
	}
	b.run()
	for _, p := range queued {
		must[tree.Answer](t)(p.Wait(b.t.Context()))
	}
	b.stop()
	eq(t, "the number of commits", len(b.committed()), 3)
}

// refusals: a refused command changes nothing, and does not affect the others.
func refusals(t *testing.T, d Dialect) {
	b := d.opened(t, d.Fresh(t))
	id := session(1)
	cmds := []tree.Command{
		tree.Send{Message: say("too early")},
		create(1),
		tree.Send{},
		create(1),
		tree.Send{Task: tree.TaskID{9}, Message: say("to nobody")},
		tree.SpawnTask{Child: child("work")},
		tree.Claim{Task: tree.TaskID{9}},
		tree.Send{Message: say("hello")},
	}
	want := []error{
		tree.ErrNoSession, nil, tree.ErrEmpty, tree.ErrSessionExists, tree.ErrNoTask, nil, tree.ErrNoTask, nil,
	}
	queued := b.submitted(id, cmds...)
	b.run()
	for i, p := range queued {
		if _, err := p.Wait(b.t.Context()); !errors.Is(err, want[i]) {
			t.Errorf("command %d, %T, was answered %v, not %v", i, cmds[i], err, want[i])
		}
	}
	b.stop()
	eq(t, "the number of commits", len(b.committed()), 1)
	eq(t, "the number of tasks", len(must[[]tree.Task](t)(b.Tree(b.t.Context(), id))), 2)
	b.events(id)
}

// submitOrder: the requests of a stream are decided in the order in which they were submitted; the
// core refuses any other order.
func submitOrder(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.MaxBatch = 16 // so that there are several batches
	b := d.opened(t, c)
	b.run()
	w := b.claim(session(1), b.create(1, "hello"))
	var queued []*store.Pending
	for range 200 {
		queued = append(queued, b.submitted(w.session, tree.Report{From: w.from(), Activity: "on"})...)
	}
	for i, p := range queued {
		if _, err := p.Wait(b.t.Context()); err != nil {
			t.Errorf("request %d: %v", i+1, err)
		}
	}
}

// gapFree: however many callers write concurrently, a session's events have no gap, and OnCommit
// gets them in order.
func gapFree(t *testing.T, d Dialect) {
	const sessions, writers, each = 4, 8, 20
	b := setup(t, d)
	for n := range sessions {
		b.create(n, "")
	}
	var wg sync.WaitGroup
	for i := range sessions * writers {
		wg.Go(func() {
			for range each {
				id := session(i % sessions)
				if _, err := b.Update(b.t.Context(), id, tree.SpawnTask{Child: child("work")}); err != nil {
					t.Error(err)
				}
				if _, err := b.Update(b.t.Context(), id, tree.Send{}); !errors.Is(err, tree.ErrEmpty) {
					t.Errorf("an empty message was answered %v", err)
				}
			}
		})
	}
	wg.Wait()
	b.stop()
	heard := map[tree.SessionID]int64{}
	for _, c := range b.committed() {
		for _, s := range c.Sessions {
			if s.LastSeq <= heard[s.Session] {
				t.Errorf("the hook heard of event %d after event %d", s.LastSeq, heard[s.Session])
			}
			heard[s.Session] = s.LastSeq
		}
	}
	for n := range sessions {
		eq(t, "the last event", heard[session(n)], b.events(session(n)))
		eq(t, "the number of tasks", len(must[[]tree.Task](t)(b.Tree(b.t.Context(), session(n)))), 1+writers*each)
	}
}

// stopped: no caller waits for a store that has stopped, and nothing that was refused is stored.
func stopped(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.MaxBatch, c.Committers = 4, 1
	b := d.opened(t, c)
	var queued []*store.Pending
	for n := range 16 { // all that the queue holds
		queued = append(queued, b.submitted(session(n), create(n))...)
	}
	full, cancel := context.WithCancel(b.t.Context())
	cancel()
	if _, err := b.Submit(full, session(16), create(16)); !errors.Is(err, context.Canceled) {
		t.Errorf("submitting to a full queue: %v", err)
	}
	ended, end := context.WithCancel(b.t.Context())
	end()
	if err := b.Run(ended); err != nil {
		t.Fatal(err)
	}
	for n, p := range queued {
		_, err := p.Wait(b.t.Context())
		_, missing := b.Session(b.t.Context(), "acme", session(n))
		if (err == nil) != (missing == nil) {
			t.Errorf("a command that was answered %v left %v", err, missing)
		}
		if err != nil && tree.CodeOf(err) != tree.CodeUnavailable {
			t.Errorf("stopping answered %v", err)
		}
	}
	if _, err := b.Update(b.t.Context(), session(17), create(17)); tree.CodeOf(err) != tree.CodeUnavailable {
		t.Errorf("a stopped store answered %v", err)
	}
}

// failedTransaction: a transaction is stored as a whole or not at all, and later commands work.
func failedTransaction(t *testing.T, d Dialect) {
	b := setup(t, d)
	id := session(1)
	root := b.create(1, "")
	before := b.dump(id)
	mend := d.Break(t, b.config, id, session(2))
	queued := b.submitted(id, tree.Send{Message: say("a")}, tree.Send{}, tree.SpawnTask{Child: child("b")})
	queued = append(queued, b.submitted(session(2), create(2))...)
	for _, p := range queued {
		// The refused command may have had a transaction of its own.
		if _, err := p.Wait(b.t.Context()); !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, tree.ErrEmpty) {
			t.Errorf("a transaction that failed answered %v", err)
		}
	}
	eq(t, "the session after the failure", b.dump(id), before)
	if _, err := b.Session(b.t.Context(), "acme", session(2)); !errors.Is(err, tree.ErrNoSession) {
		t.Errorf("the session of a failed transaction: %v", err)
	}
	mend()
	eq(t, "what was sent after the repair", b.must(id, tree.Send{Message: say("again")}),
		tree.Answer(tree.Sent{Task: root, Run: 1}))
	b.events(id)
}

// bomb is a command that panics.
type bomb struct{ tree.Command }

// panics: a defect fails the command that has it, as a defect, and none of the commands that queued
// with it.
func panics(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.Committers = 1
	b := d.opened(t, c)
	queued := b.submitted(session(1), create(1))
	queued = append(queued, b.submitted(session(2), bomb{})...)
	queued = append(queued, b.submitted(session(1), tree.Send{Message: say("hello")})...)
	b.run()
	for i, p := range queued {
		_, err := p.Wait(b.t.Context())
		switch {
		case i != 1 && err != nil:
			t.Errorf("command %d, beside one that panics, was answered %v", i, err)
		case i == 1 && (err == nil || tree.CodeOf(err) != tree.CodeInternal || strings.Contains(err.Error(), "goroutine")):
			t.Errorf("a panic was answered %v", err)
		}
	}
	b.events(session(1))
}
