package store

import (
	"context"
	"iter"

	"github.com/coppice-run/coppice/internal/tree"
)

// Offer is the claim of another run with the request that gives a worker's own run back.
// Both steps are one transaction then, and nobody has to be told that the run is ready.
type Offer struct {
	Worker string
	Nonce  uint64
	// Next is a run that is announced, of a session that may go Together with the request's;
	// zero: whatever becomes ready with the request, a new child of the run that parks, or the
	// parent that waited for the run that ends. It gets one only if nobody else would have to
	// wait longer for it.
	Next Announced
	// IdleSlots is how many other slots have nothing to do: what was announced and is not
	// claimed yet is on its way to them.
	IdleSlots int

	refused error // by the database, which would not store the request with the claim
}

// Announced is a run that may be claimed.
type Announced struct {
	Session tree.SessionID
	Task    tree.TaskID
	Epoch   int64
}

// claim is the claim of a run.
func (o *Offer) claim(task tree.TaskID, epoch int64) tree.Claim {
	return tree.Claim{Task: task, Token: tree.Token{Epoch: epoch, Nonce: o.Nonce}, Worker: o.Worker}
}

// mayClaimNext reports whether no other run would have got the slot: nothing waits for its
// turn, and what was announced finds other slots.
func (b *batch) mayClaimNext(offer *Offer) bool {
	return b.window.fitsIdleSlots(offer.IdleSlots)
}

// fillSlot lets a worker that has given its run back claim another one. It may be none; refused
// says why it is not the one that it was to be. The last error fails the whole batch.
func (b *batch) fillSlot(ctx context.Context, p *Pending, answer tree.Answer) (taken *tree.Claimed, refused, err error) {
	switch {
	case p.offer == nil || !givesBack(answer):
		return nil, nil, nil
	case p.offer.refused != nil && p.offer.Next.Task.IsZero():
		return nil, nil, nil
	case p.offer.refused != nil:
		return nil, p.offer.refused, nil
	}
	if claim, any := p.nextClaim(); any {
		return b.claim(ctx, p.offer.Next.Session, claim)
	}
	if !b.mayClaimNext(p.offer) {
		return nil, nil, nil
	}
	next := firstReady(b.sessions[p.session].view.Changes().Ready)
	if next == nil {
		return nil, nil, nil
	}
	taken, _, err = b.claim(ctx, p.session, p.offer.claim(next.Task, next.Epoch)) // it waits for its turn if the session runs as many as it may
	return taken, nil, err
}

// claim lets a run be claimed. The second error fails the whole batch.
func (b *batch) claim(ctx context.Context, id tree.SessionID, claim tree.Claim) (got *tree.Claimed, refused, err error) {
	granted, err := b.isAnnounced(ctx, id, claim)
	if err != nil || !granted {
		return nil, tree.ErrNotReady.With("it is not its turn"), err
	}
	answer, refused, err := b.apply(ctx, id, claim)
	got, _ = answer.(*tree.Claimed) // nil if it was refused
	return got, refused, err
}

// givesBack reports whether a worker has given its run back with a request.
func givesBack(answer tree.Answer) bool {
	switch answer.(type) {
	case tree.ParkedRun, tree.Ended:
		return true
	}
	return false
}

// nextClaim is the claim that is known to come with a request, if there is one.
func (p *Pending) nextClaim() (claim tree.Claim, any bool) {
	if p.offer == nil || p.offer.refused != nil || p.offer.Next.Task.IsZero() {
		return claim, false
	}
	return p.offer.claim(p.offer.Next.Task, p.offer.Next.Epoch), true
}

// commands are what a request is known to lead to before it is decided, each with its session.
func (p *Pending) commands() iter.Seq2[tree.SessionID, tree.Command] {
	return func(yield func(tree.SessionID, tree.Command) bool) {
		if p.cmd == nil || !yield(p.session, p.cmd) {
			return
		}
		if claim, any := p.nextClaim(); any {
			yield(p.offer.Next.Session, claim)
		}
	}
}

// firstReady gives the run that goes firstReady of those that have become ready: one that somebody
// waits for before one in the background, then the oldest.
func firstReady(ready map[tree.TaskID]*tree.Ready) (next *tree.Ready) {
	for _, task := range inOrder(ready) {
		if r := ready[task]; r != nil && (next == nil || r.Priority < next.Priority) {
			next = r
		}
	}
	return next
}
