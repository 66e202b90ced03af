package storetest

import (
	"encoding/json"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// inPlace is the offer with which a worker claims what becomes ready with the end of its run.
var inPlace = store.Offer{Worker: "next", Nonce: 1<<63 + 77}

// taken carries commands out in one transaction. The last command offers the worker's slot. It
// gives the run that the slot got.
func (b *bundle) taken(id tree.SessionID, looks bool, offer store.Offer, cmds ...tree.Command) (*tree.Claimed, tree.Answer) {
	b.t.Helper()
	b.close()
	b.open() // what is queued before it runs is one transaction
	if looks {
		if b.Exclusive() { // one that is alone has stored no announcement
			b.take(10)
		}
		eq(b.t, "how many wait", len(b.take(10)), 0)
	}
	last := len(cmds) - 1
	var queued []*store.Pending
	for _, cmd := range cmds[:last] {
		queued = append(queued, b.Prepare(id, cmd, nil))
	}
	p := b.Prepare(id, cmds[last], &offer)
	if err := b.Queue(b.t.Context(), append(queued, p)...); err != nil {
		b.t.Fatal(err)
	}
	b.run()
	answer := must[tree.Answer](b.t)(p.Wait(b.t.Context()))
	granted, _ := p.NextRun()
	if granted == nil {
		return nil, answer
	}
	eq(b.t, "who has it", granted.Task.Worker, offer.Worker)
	found := must[[]store.Attempt](b.t)(b.AttemptsByNonce(b.t.Context(), offer.Worker, offer.Nonce))
	if len(found) != 1 || found[0].Task != granted.Task.ID || found[0].Epoch != granted.Task.Epoch {
		b.t.Errorf("under the number of %+v is %+v", granted.Task.Token(), found)
	}
	for worker, nonce := range map[string]uint64{offer.Worker: offer.Nonce + 1, "another": offer.Nonce} {
		if found := must[[]store.Attempt](b.t)(b.AttemptsByNonce(b.t.Context(), worker, nonce)); len(found) > 0 {
			b.t.Errorf("under another worker or number is %+v", found)
		}
	}
	return granted, answer
}

// taking: a slot whose run parks or ends claims what became ready with that, in the same
// transaction, unless the slot is needed for another run.
func taking(t *testing.T, d Dialect) {
	for name, test := range map[string]struct {
		before     func(b *bundle)
		unseen     bool
		caps       store.Caps
		spare      int
		background bool
		got        bool
	}{
		"nothing waits":                     {got: true},
		"something may wait":                {unseen: true},
		"an announced run has no slot yet":  {before: func(b *bundle) { b.create(2, "hello"); b.take(10) }},
		"an announced run has another slot": {before: func(b *bundle) { b.create(2, "hello"); b.take(10) }, spare: 1, got: true},
		"only the picker keeps caps":        {caps: store.Caps{All: 10}},
		"the parent goes on":                {background: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := d.Fresh(t)
			c.AnnounceOnCommit, c.Caps = true, test.caps
			b := d.opened(t, c)
			b.run()
			id, root := session(1), b.create(1, "ask somebody")
			b.take(1)
			w := b.claim(id, root)
			w.calls("task", "task")
			if test.before != nil {
				test.before(b)
			}
			offer := inPlace
			offer.IdleSlots = test.spare
			got, answer := b.taken(id, !test.unseen, offer, tree.SpawnCalls{From: w.from(), Children: []tree.CallChild{
				{Block: 1, Child: child("look beside it"), Background: true},
				{Block: 2, Child: child("do it"), Background: test.background},
			}}, tree.Park{From: w.from()})
			_, parked := answer.(tree.ParkedRun)
			eq(t, "whether the parent is parked", parked, !test.background)
			eq(t, "whether the child was taken", got != nil, test.got)
			if got == nil {
				return
			}
			eq(t, "whether it runs in the background", got.Task.Background, false)
			for _, task := range must[[]tree.Task](t)(b.Tree(t.Context(), id)) {
				if task.Background { // it would have the next slot
					b.claim(id, task.ID)
				}
			}
			w = &worker{b: b, session: id, task: got.Task.ID, token: got.Task.Token()}
			back, _ := b.taken(id, true, offer, tree.End{From: w.from(), Answer: &tree.Message{
				Blocks: say("found"), Model: "m-1", Stop: tree.StopEndTurn,
			}})
			if back == nil || back.Task.ID != root || back.Task.OpenCalls > 0 {
				t.Fatalf("with the child's end %+v was taken, not its parent", back)
			}
			w = &worker{b: b, session: id, task: root, token: back.Task.Token()}
			w.answers("done")
			b.events(id)
		})
	}
}

// takingNext: a slot whose run ends claims an announced run of its session, unless another worker
// has it. A slot that keeps its run gets none.
func takingNext(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	c.AnnounceOnCommit = true
	b := d.opened(t, c)
	b.run()
	id, root := session(1), b.create(1, "ask three")
	b.create(2, "wait")
	b.take(1)
	parent := b.claim(id, root)
	parent.calls("task", "task", "task")
	b.must(id, tree.SpawnCalls{From: parent.from(), Children: []tree.CallChild{
		{Block: 1, Child: child("one")}, {Block: 2, Child: child("two")}, {Block: 3, Child: child("three")},
	}})
	var children []tree.TaskID
	for _, task := range must[[]tree.Task](t)(b.Tree(t.Context(), id)) {
		if task.ID != root {
			children = append(children, task.ID)
		}
	}
	next := func(i int) store.Offer {
		offer := inPlace
		offer.Next = store.Announced{Session: id, Task: children[i], Epoch: 1}
		return offer
	}
	w := b.claim(id, children[0])
	end := func(w *worker) tree.Command {
		return tree.End{From: w.from(), Answer: &tree.Message{Blocks: say("found"), Model: "m-1", Stop: tree.StopEndTurn}}
	}
	got, _ := b.taken(id, false, next(1), tree.AppendAnswer{From: w.from(), Message: tree.Message{
		Blocks: []tree.Block{tree.ToolUse{ProviderID: "call_0", Name: "glob", Input: json.RawMessage(`{}`)}},
		Model:  "m-1", Stop: tree.StopToolUse,
	}})
	if got != nil {
		t.Fatalf("%+v was taken by a slot that keeps its run", got)
	}
	w.closes(0, "nothing", false)
	got, _ = b.taken(id, false, next(1), end(w))
	if got == nil || got.Task.ID != children[1] {
		t.Fatalf("with the first child's end %+v was taken, not the second", got)
	}
	w = &worker{b: b, session: id, task: got.Task.ID, token: got.Task.Token()}
	third := b.claim(id, children[2])
	if got, _ = b.taken(id, false, next(2), end(w)); got != nil {
		t.Fatalf("%+v was taken, which another worker has", got)
	}
	third.answers("found")
	b.events(id)
}
