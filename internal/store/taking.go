package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// Takes is a claim of whatever run becomes ready with the request that gives a worker's
// own run back: a new child of the run that parks, or the parent that waited for the run
// that ends. Both steps are one transaction then, and nobody has to be told that the run
// is ready. It gets one only if nobody else would have to wait longer for it.
type Takes struct {
	Worker string
	Nonce  uint64
	// Spare is how many other slots have nothing to do: what was announced and is not
	// claimed yet is on its way to them.
	Spare int
}

// mayTake reports whether no other run would have got the slot: nothing waits for its
// turn, and what was announced finds other slots.
func (b *batch) mayTake(takes *Takes) bool {
	return b.ahead.spares(takes.Spare)
}

// take lets a worker that has given its run back claim one of its session that has become
// ready in the same transaction. It may be none.
func (b *batch) take(ctx context.Context, p *Pending, answer tree.Answer) (*tree.Claimed, error) {
	if p.takes == nil || !b.mayTake(p.takes) {
		return nil, nil
	}
	switch answer.(type) {
	case tree.ParkedRun, tree.Ended:
	default:
		return nil, nil // it keeps its run
	}
	next := first(b.sessions[p.session].view.Changes().Ready)
	if next == nil {
		return nil, nil
	}
	answer, refused, err := b.apply(ctx, p.session, tree.Claim{
		Task: next.Task, Token: tree.Token{Epoch: next.Epoch, Nonce: p.takes.Nonce}, Worker: p.takes.Worker,
	})
	if err != nil || refused != nil { // the session runs as many as it may
		return nil, err
	}
	claimed := answer.(tree.Claimed)
	return &claimed, nil
}

// first gives the run that goes first of those that have become ready: one that somebody
// waits for before one in the background, then the oldest.
func first(ready map[tree.TaskID]*tree.Ready) (next *tree.Ready) {
	for _, task := range inOrder(ready) {
		if r := ready[task]; r != nil && (next == nil || r.Priority < next.Priority) {
			next = r
		}
	}
	return next
}
