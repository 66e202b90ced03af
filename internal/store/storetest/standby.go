package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// bench has slots that stand by; no other slots exist.
type bench struct {
	mu      sync.Mutex
	waiting []*sitting
	sat     uint64
}

// sitting is a slot on a bench, with the run that it was given.
type sitting struct {
	on    *bench
	offer store.Offer
	given *store.Assignment
	again int // how often it has waited again
}

func (b *bench) sit(worker string) *sitting {
	b.sat++
	s := &sitting{on: b, offer: store.Offer{Worker: worker, Nonce: b.sat}}
	b.waiting = append(b.waiting, s)
	return s
}

func (b *bench) IdleSlots() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) - 1
}

func (b *bench) Take() store.Slot {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	first := b.waiting[0]
	b.waiting = b.waiting[1:]
	return first
}

func (s *sitting) Offer() store.Offer { return s.offer }

func (s *sitting) Assign(run *store.Assignment) {
	s.on.mu.Lock()
	defer s.on.mu.Unlock()
	if s.given = run; run == nil {
		s.again++
		s.on.waiting = append([]*sitting{s}, s.on.waiting...)
	}
}

// standby: a run that becomes ready is claimed for a slot that stands by, with the commit that
// makes it ready, unless another run waits for its turn.
func standby(t *testing.T, d Dialect) {
	for name, test := range map[string]struct {
		caps   store.Caps
		unseen bool
		given  bool
	}{
		"nothing waits":              {given: true},
		"something may wait":         {unseen: true},
		"only the picker keeps caps": {caps: store.Caps{All: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			on := &bench{}
			c := d.Fresh(t)
			c.AnnounceOnCommit, c.Caps, c.Standby = true, test.caps, func() store.Standby { return on }
			b := d.opened(t, c)
			b.run()
			if !test.unseen {
				eq(t, "how many wait", len(b.take(10)), 0)
			}
			slot := on.sit("waits")
			root := b.create(1, "hello")
			eq(t, "whether the slot has got a run", slot.given != nil, test.given)
			if !test.given {
				eq(t, "how many wait", len(b.take(10)), 1)
				return
			}
			eq(t, "what it has got", slot.given.Task.ID, root)
			eq(t, "whose it is", slot.given.Task.Worker, "waits")
			eq(t, "how many wait", len(b.take(10)), 0)
			known := must[*store.Conversation](t)(b.ConversationFromCache(t.Context(), slot.given.CachedConversation))
			if known == nil || len(known.Messages) != 1 {
				t.Errorf("known of its conversation is %+v", known)
			}
			w := &worker{b: b, session: session(1), task: root, token: slot.given.Task.Token()}
			w.answers("done")
			b.events(session(1))
		})
	}
}

// standbyOrder: with fewer slots than runs, foreground runs go first, and the other runs are ready
// as they would be without slots. A session never runs more tasks than its cap.
func standbyOrder(t *testing.T, d Dialect) {
	on := &bench{}
	c := d.Fresh(t)
	c.AnnounceOnCommit, c.Standby = true, func() store.Standby { return on }
	b := d.opened(t, c)
	b.run()
	id, root := session(1), b.create(1, "ask three")
	b.take(1)
	w := b.claim(id, root)
	w.calls("task", "task", "task")
	eq(t, "how many wait", len(b.take(10)), 0)
	slot := on.sit("waits")
	b.must(id, tree.SpawnCalls{From: w.from(), Children: []tree.CallChild{
		{Block: 1, Child: child("look beside it"), Background: true},
		{Block: 2, Child: child("one")}, {Block: 3, Child: child("two")},
	}})
	if slot.given == nil || slot.given.Task.Background {
		t.Fatalf("given was %+v, want a run that somebody waits for", slot.given)
	}
	states := map[string]int{}
	for _, task := range must[[]tree.Task](t)(b.Tree(t.Context(), id)) {
		states[fmt.Sprint(task.State)]++
	}
	eq(t, "how many are pending", states[fmt.Sprint(tree.StatePending)], 2)
	b.events(id)
}

// standbyGives: an announced run can be given to a slot that stands by. If another worker has the
// run, the claim is refused.
func standbyGives(t *testing.T, d Dialect) {
	on := &bench{}
	c := d.Fresh(t)
	c.AnnounceOnCommit, c.Standby = true, func() store.Standby { return on }
	b := d.opened(t, c)
	b.run()
	id, root := session(1), b.create(1, "hello")
	eq(t, "how many wait", len(b.take(10)), 1)
	run := store.Announced{Session: id, Task: root, Epoch: 1}
	for _, first := range []bool{true, false} {
		slot := on.sit("waits")
		on.Take()
		p := must[*store.Pending](t)(b.ClaimFor(t.Context(), run, slot))
		_, err := p.Wait(t.Context())
		eq(t, "whether it was given", slot.given != nil, first)
		eq(t, "whether it was refused", tree.CodeOf(err) == tree.CodeStale, !first)
		eq(t, "how often the store has given the slot back", slot.again, 0)
	}
}
