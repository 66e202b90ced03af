package store

import (
	"context"
	"iter"

	"github.com/coppice-run/coppice/internal/tree"
)

// Offer is a worker's offer to take another run. With a request that gives the worker's own run
// back, both steps are one transaction, and the next run need not be announced.
type Offer struct {
	Worker string
	Nonce  uint64
	// Next is an announced run, of a session with the same committer as the request's. Zero: a run
	// that becomes ready with the request, which is a new child of the run that parks, or the
	// parent that waited for the run that ends. Such a run is claimed only if no other run has to
	// wait longer because of that.
	Next  Announced
	Local bool // the worker is in this process
	// IdleSlots is how many other slots are idle. Runs that are announced and not yet claimed are
	// on their way to them.
	IdleSlots int

	refused error // by the database, which did not store the request with the claim
}

// Announced names a run that can be claimed.
type Announced struct {
	Session tree.SessionID
	Task    tree.TaskID
	Epoch   int64
}

// claim is the command that claims a run.
func (o *Offer) claim(task tree.TaskID, epoch int64) tree.Claim {
	return tree.Claim{Task: task, Token: tree.Token{Epoch: epoch, Nonce: o.Nonce}, Worker: o.Worker}
}

// mayClaimNext reports whether the slot is not needed for another run: none waits for its turn, and
// other slots are idle for those that are announced.
func (b *batch) mayClaimNext(offer *Offer) bool {
	return b.window.fitsIdleSlots(offer.IdleSlots)
}

// fillSlot lets a worker that has given its run back claim another one, if there is one. refused
// says why it did not get the run it asked for. The last error fails the whole batch.
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

// claim decides the claim of a run. The second error fails the whole batch.
func (b *batch) claim(ctx context.Context, id tree.SessionID, claim tree.Claim) (got *tree.Claimed, refused, err error) {
	granted, err := b.capsAllowClaim(ctx, id, claim)
	if err != nil || !granted {
		return nil, tree.ErrNotReady.With("it is not its turn"), err
	}
	answer, refused, err := b.apply(ctx, id, claim)
	got, _ = answer.(*tree.Claimed) // nil if it was refused
	return got, refused, err
}

// givesBack reports whether the worker has given its run back with the request.
func givesBack(answer tree.Answer) bool {
	switch answer.(type) {
	case tree.ParkedRun, tree.Ended:
		return true
	}
	return false
}

// nextClaim is the claim of the run that the offer names, if it names one.
func (p *Pending) nextClaim() (claim tree.Claim, any bool) {
	if p.offer == nil || p.offer.refused != nil || p.offer.Next.Task.IsZero() {
		return claim, false
	}
	return p.offer.claim(p.offer.Next.Task, p.offer.Next.Epoch), true
}

// commands are the commands that a request is known to lead to before it is decided, each with its
// session.
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

// sessions are the sessions that a request is known to be about before it is decided.
func (p *Pending) sessions() iter.Seq[tree.SessionID] {
	return func(yield func(tree.SessionID) bool) {
		if p.cmd == nil && p.session != (tree.SessionID{}) && !yield(p.session) {
			return
		}
		for id := range p.commands() {
			if !yield(id) {
				return
			}
		}
	}
}

// firstReady gives the first of the runs that have become ready: foreground runs before background
// runs, then the oldest.
func firstReady(ready map[tree.TaskID]*tree.Ready) (next *tree.Ready) {
	for _, task := range inOrder(ready) {
		if r := ready[task]; r != nil && (next == nil || r.Priority < next.Priority) {
			next = r
		}
	}
	return next
}
