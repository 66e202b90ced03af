package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// pair is the request of a worker for its run of session 1, and the claim of the root of
// session 2 for its slot, about to be one transaction.
type pair struct {
	*bundle
	last, claim *store.Pending
	takes       store.Takes
	other       tree.TaskID // that root
}

// paired queues such a pair. The run is a root's, or that of a child whose parent waits for it.
func paired(t *testing.T, c store.Config, child bool, request func(*worker) tree.Command) *pair {
	t.Helper()
	c.Ahead, c.Committers = true, 1
	b := opened(t, c)
	b.run()
	id, root := session(1), b.create(1, "go")
	b.take(1)
	w := b.claim(id, root)
	if child {
		kid := w.spawns(w.calls("task"), 1, false)
		w.parks()
		w = b.claim(id, kid)
	}
	other := b.create(2, "wait")
	b.take(1)
	b.close()
	b.open() // what is queued before it runs is one transaction
	if child {
		eq(t, "how many wait", len(b.take(10)), 0)
	}
	takes := inPlace
	takes.Spare = 1
	last := b.Prepare(id, request(w), &takes)
	claim := b.PrepareAfter(session(2), takes.Claim(other, 1), last)
	eq(t, "whether they go together", b.Together(id, session(2)), true)
	if err := b.Queue(t.Context(), last, claim); err != nil {
		t.Fatal(err)
	}
	return &pair{b, last, claim, takes, other}
}

// takingOther: with the request that gives its run back a slot claims a run of another
// session, in one transaction, and gets it only if that makes the slot free.
func takingOther(t *testing.T, d Dialect) {
	end := func(from tree.From) tree.Command {
		return tree.End{From: from, Answer: &tree.Message{Blocks: say("found"), Model: "m-1", Stop: tree.StopEndTurn}}
	}
	ends := func(w *worker) tree.Command { return end(w.from()) }
	old := func(w *worker) tree.Command {
		from := w.from()
		from.Token.Epoch--
		return end(from)
	}
	goesOn := func(w *worker) tree.Command {
		return tree.AppendAnswer{From: w.from(), Message: tree.Message{
			Blocks: []tree.Block{tree.ToolUse{ProviderID: "call_0", Name: "glob", Input: json.RawMessage(`{}`)}},
			Model:  "m-1", Stop: tree.StopToolUse,
		}}
	}
	for name, test := range map[string]struct {
		request func(*worker) tree.Command
		broken  bool // the database refuses it
		child   bool // the parent waits for the run, and the slot takes that
		got     bool
	}{
		"the run ends":                        {request: ends, got: true},
		"the run goes on":                     {request: goesOn},
		"the run was somebody else's":         {request: old},
		"the end is not stored":               {request: ends, broken: true},
		"the slot has got the parent already": {request: ends, child: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := paired(t, d.Fresh(t), test.child, test.request)
			mend := func() {}
			if test.broken {
				mend = d.Break(t, p.config)
			}
			p.run()
			_, lastErr := p.last.Wait(t.Context())
			answer, err := p.claim.Wait(t.Context())
			mend()
			eq(t, "whether the slot has taken another run", p.last.Taken() != nil, test.child)
			granted, got := answer.(tree.Claimed)
			if got != test.got || !got && !errors.Is(err, tree.ErrNotReady) {
				t.Fatalf("after %v the claim was answered with %+v, %v", lastErr, answer, err)
			}
			if !got {
				p.bundle.claim(session(2), p.other) // nobody has it
				return
			}
			eq(t, "the run that the slot has got", granted.Task.ID, p.other)
			found := must[[]store.Attempt](t)(p.AttemptsBy(t.Context(), p.takes.Worker, p.takes.Nonce))
			eq(t, "how many attempts there are under its number", len(found), 1)
		})
	}
}
