package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// flood opens a tenant's session whose root has so many ready children; the session may run any
// number of them.
func (b *bundle) flood(n int, tenant string, children int, background bool) {
	b.t.Helper()
	cmd := create(n)
	cmd.Tenant, cmd.Message = tenant, say("spread")
	cmd.Limits.Running, cmd.Limits.Width = children+1, children+1
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	w := b.claim(cmd.ID, root)
	tools := make([]string, children)
	for i := range tools {
		tools[i] = "task"
	}
	w.calls(tools...)
	spawn := tree.SpawnCalls{From: w.from()}
	for i := range tools {
		spawn.Children = append(spawn.Children, tree.CallChild{Block: i + 1, Child: child("work"), Background: background})
	}
	b.must(cmd.ID, spawn)
}

// readyTenants: tenants take turns, however many sessions and runs one of them has.
func readyTenants(t *testing.T, d Dialect) {
	b := setup(t, d)
	for n := range 10 {
		b.flood(1+n, "loud", 50, false)
	}
	b.flood(20, "quiet", 8, false)
	c := counts(b.take(20))
	eq(t, "the quiet tenant's share", c[session(20)], 8)
	for n := range 10 {
		if got := c[session(1+n)]; got == 0 || got > 2 {
			t.Errorf("session %d of the loud tenant got %d of 12", n+1, got)
		}
	}
}

// readyShare: background runs go last, but they are not starved.
func readyShare(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.flood(1, "acme", 100, false)
	b.flood(2, "acme", 100, true)
	c := counts(b.take(80))
	eq(t, "the share of what is waited for", c[session(1)], 70)
	eq(t, "the share of the background", c[session(2)], 10)
}

// capped is a store with a cap of four for each tenant and of six for all. Two sessions of one
// tenant and one of another have ten ready runs each.
func capped(t *testing.T, d Dialect) *bundle {
	config := d.Fresh(t)
	config.Caps = store.Caps{Tenant: 4, All: 6}
	b := d.opened(t, config)
	b.run()
	for n, tenant := range []string{"loud", "loud", "quiet"} {
		cmd := create(1 + n)
		cmd.Tenant = tenant
		b.must(cmd.ID, cmd)
		for range 10 {
			b.must(cmd.ID, tree.SpawnTask{Child: child("work")})
		}
	}
	return b
}

// readyCaps: no more runs are announced than the caps of the tenant and of the installation allow,
// and only announced runs can be claimed.
func readyCaps(t *testing.T, d Dialect) {
	b := capped(t, d)
	taken := b.take(100)
	c := counts(taken)
	eq(t, "how many are offered", len(taken), 6)
	if loud := c[session(1)] + c[session(2)]; loud < 3 || loud > 4 {
		t.Errorf("the loud tenant got %d", loud)
	}
	offered := map[tree.TaskID]bool{}
	var workers []*worker
	for _, r := range taken {
		offered[r.Task] = true
		workers = append(workers, b.claim(r.Session, r.Task))
	}
	for _, task := range must[[]tree.Task](t)(b.Tree(t.Context(), session(1))) {
		if task.Depth == 0 || offered[task.ID] {
			continue
		}
		_, err := b.Update(t.Context(), session(1), tree.Claim{Task: task.ID, Token: tree.Token{Epoch: task.Epoch, Nonce: 1}, Worker: "w"})
		if !errors.Is(err, tree.ErrNotReady) {
			t.Errorf("a claim out of turn: %v", err)
		}
	}
	b.clock.advance(2 * lease)
	eq(t, "how many are offered while all run", len(b.take(100)), 0)
	for _, w := range workers[:2] {
		w.answers("done")
	}
	taken = b.take(100)
	eq(t, "how many are offered when two have ended", len(taken), 2)
	b.clock.advance(2 * lease)
	eq(t, "how many are offered again when nobody claims them", len(b.take(100)), 2)
}

// readyCapsLost: a run that was announced and not claimed is picked again, even if its own
// announcement fills a cap that holds up runs before it.
func readyCapsLost(t *testing.T, d Dialect) {
	for name, caps := range map[string]store.Caps{"of a tenant": {Tenant: 2}, "of all": {All: 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := d.Fresh(t)
			config.Caps = caps
			b := d.opened(t, config)
			b.run()
			b.spread(1, 2, 1) // one of its runs is held back, and older than all that come
			taken := b.take(10)
			eq(t, "how many are offered", len(taken), 1)
			first := b.claim(session(1), taken[0].Task)
			b.clock.advance(time.Millisecond)
			b.spread(2, 1, 1)
			taken = b.take(10)
			eq(t, "how many are offered then", len(taken), 1)
			lost := taken[0].Task
			urgent := b.create(3, "hello")
			first.answers("done")
			eq(t, "who has the place that is free", b.take(10)[0].Task, urgent)
			b.claim(session(3), urgent)
			b.clock.advance(2 * lease)
			taken = b.take(10)
			if len(taken) != 1 || taken[0].Task != lost || !taken[0].Again {
				t.Fatalf("offered again are %+v", taken)
			}
			b.claim(session(2), lost).answers("done")
			taken = b.take(10)
			eq(t, "how many are offered when that has ended", len(taken), 1)
			eq(t, "their session", taken[0].Session, session(1))
		})
	}
}
