package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// pair is a worker's request that gives back its run of session 1, with which its slot claims the
// root of session 2.
type pair struct {
	*bundle
	request *store.Pending
	offer   store.Offer
}

// paired queues such a pair. Another worker may have the root already.
func paired(t *testing.T, d Dialect, request func(*worker) tree.Command, had bool) *pair {
	t.Helper()
	c := d.Fresh(t)
	c.AnnounceOnCommit, c.Committers = true, 1
	b := d.opened(t, c)
	b.run()
	id, root := session(1), b.create(1, "go")
	b.take(1)
	w := b.claim(id, root)
	other := b.create(2, "wait")
	b.take(1)
	if had {
		b.claim(session(2), other)
	}
	b.close()
	b.open() // what is queued before it runs is one transaction
	eq(t, "whether they go together", b.SameCommitter(id, session(2)), true)
	offer := inPlace
	offer.IdleSlots, offer.Next = 1, store.Announced{Session: session(2), Task: other, Epoch: 1}
	p := b.Prepare(id, request(w), &offer)
	if err := b.Queue(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return &pair{b, p, offer}
}

// takingOther: with the request that gives its run back, a slot claims a run of another session in
// one transaction. It gets that run only if the request frees the slot.
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
		refused tree.SessionID // the database stores nothing of it
		err     error          // of the request
		had     bool           // another worker has the other run
		got     bool
		why     error // it has not got it
	}{
		"the run ends":                        {request: ends, got: true},
		"the run goes on":                     {request: goesOn},
		"the run was somebody else's":         {request: old, err: tree.ErrStale},
		"the end is not stored":               {request: ends, refused: session(1), err: store.ErrUnavailable},
		"the claim of the next is not stored": {request: ends, refused: session(2), why: store.ErrUnavailable},
		"another worker has the next":         {request: ends, had: true, why: tree.ErrNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			p := paired(t, d, test.request, test.had)
			mend := d.Break(t, p.config, test.refused)
			p.run()
			_, err := p.request.Wait(t.Context())
			mend()
			if !errors.Is(err, test.err) {
				t.Errorf("the request was answered %v", err)
			}
			granted, why := p.request.NextRun()
			eq(t, "whether the slot has taken the other run", granted != nil, test.got)
			if !errors.Is(why, test.why) {
				t.Errorf("that it has not is said to be due to %v", why)
			}
			next := p.offer.Next
			if !test.got && !test.had {
				p.claim(next.Session, next.Task) // nobody has it
			}
			if !test.got {
				return
			}
			eq(t, "the run that the slot has got", granted.Task.ID, next.Task)
			found := must[[]store.Attempt](t)(p.AttemptsByNonce(t.Context(), p.offer.Worker, p.offer.Nonce))
			eq(t, "how many attempts there are under its number", len(found), 1)
		})
	}
}
