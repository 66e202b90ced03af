package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// takingOther: with the request that gives its run back a slot claims a run of another
// session, in one transaction, and gets it only if that makes the slot free.
func takingOther(t *testing.T, d Dialect) {
	goesOn := func(w *worker) tree.Command {
		return tree.AppendAnswer{From: w.from(), Message: tree.Message{
			Blocks: []tree.Block{tree.ToolUse{ProviderID: "call_0", Name: "glob", Input: json.RawMessage(`{}`)}},
			Model:  "m-1", Stop: tree.StopToolUse,
		}}
	}
	ends := func(w *worker) tree.Command {
		return tree.End{From: w.from(), Answer: &tree.Message{Blocks: say("found"), Model: "m-1", Stop: tree.StopEndTurn}}
	}
	old := func(w *worker) tree.Command {
		from := w.from()
		from.Token.Epoch--
		return tree.End{From: from, Answer: &tree.Message{Blocks: say("found"), Model: "m-1", Stop: tree.StopEndTurn}}
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
			c := d.Fresh(t)
			c.Ahead, c.Committers = true, 1
			b := opened(t, c)
			b.run()
			id, root := session(1), b.create(1, "go")
			b.take(1)
			w := b.claim(id, root)
			if test.child {
				kid := w.spawns(w.calls("task"), 1, false)
				w.parks()
				w = b.claim(id, kid)
			}
			other := b.create(2, "wait")
			b.take(1)
			b.close()
			b.open() // what is queued before it runs is one transaction
			takes := inPlace
			takes.Spare = 1
			if test.child {
				eq(t, "how many wait", len(b.take(10)), 0)
			}
			last := b.Prepare(id, test.request(w), &takes)
			claim := b.PrepareAfter(session(2), takes.Claim(other, 1), last)
			eq(t, "whether they go together", b.Together(id, session(2)), true)
			if err := b.Queue(t.Context(), last, claim); err != nil {
				t.Fatal(err)
			}
			mend := func() {}
			if test.broken {
				mend = d.Break(t, b.config)
			}
			b.run()
			_, lastErr := last.Wait(t.Context())
			answer, err := claim.Wait(t.Context())
			mend()
			eq(t, "whether the slot has taken another run", last.Taken() != nil, test.child)
			granted, got := answer.(tree.Claimed)
			if got != test.got || !got && !errors.Is(err, tree.ErrNotReady) {
				t.Fatalf("after %v the claim was answered with %+v, %v", lastErr, answer, err)
			}
			if !got {
				b.claim(session(2), other) // nobody has it
				return
			}
			eq(t, "the run that the slot has got", granted.Task.ID, other)
			found := must[[]store.Attempt](t)(b.AttemptsBy(t.Context(), takes.Worker, takes.Nonce))
			eq(t, "how many attempts there are under its number", len(found), 1)
		})
	}
}
