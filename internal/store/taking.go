package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// Takes is the claim of another run with the request that gives a worker's own run back.
// Both steps are one transaction then, and nobody has to be told that the run is ready.
type Takes struct {
	Worker string
	Nonce  uint64
	// Next is a run of the same session that is announced; zero: whatever becomes ready with
	// the request, a new child of the run that parks, or the parent that waited for the run
	// that ends. It gets one only if nobody else would have to wait longer for it.
	Next      tree.TaskID
	NextEpoch int64
	// Spare is how many other slots have nothing to do: what was announced and is not
	// claimed yet is on its way to them.
	Spare int
}

// Claim is the claim of a run.
func (t *Takes) Claim(task tree.TaskID, epoch int64) tree.Claim {
	return tree.Claim{Task: task, Token: tree.Token{Epoch: epoch, Nonce: t.Nonce}, Worker: t.Worker}
}

// mayTake reports whether no other run would have got the slot: nothing waits for its
// turn, and what was announced finds other slots.
func (b *batch) mayTake(takes *Takes) bool {
	return b.ahead.spares(takes.Spare)
}

// take lets a worker that has given its run back claim another one of its session. It may
// be none.
func (b *batch) take(ctx context.Context, p *Pending, answer tree.Answer) (*tree.Claimed, error) {
	if p.takes == nil || !givesBack(answer) {
		return nil, nil
	}
	claim, any := p.next()
	if !any && b.mayTake(p.takes) {
		if next := first(b.sessions[p.session].view.Changes().Ready); next != nil {
			claim, any = p.takes.Claim(next.Task, next.Epoch), true
		}
	}
	if !any {
		return nil, nil
	}
	if granted, err := b.granted(ctx, p.session, claim); err != nil || !granted {
		return nil, err
	}
	answer, refused, err := b.apply(ctx, p.session, claim)
	if err != nil || refused != nil { // the session runs as many as it may, or somebody else has it
		return nil, err
	}
	claimed := answer.(tree.Claimed)
	return &claimed, nil
}

// givesBack reports whether a worker has given its run back with a request.
func givesBack(answer tree.Answer) bool {
	switch answer.(type) {
	case tree.ParkedRun, tree.Ended:
		return true
	}
	return false
}

// mayFollow reports whether the slot is free that a claim is for, as far as that hangs on what
// was queued with it. What has been refused by the database has freed none.
func (p *Pending) mayFollow() bool {
	return p.after == nil || p.after.frees && p.after.err == nil
}

// next is the claim that is known to come with a request, if there is one.
func (p *Pending) next() (claim tree.Claim, any bool) {
	if p.takes == nil || p.takes.Next.IsZero() {
		return claim, false
	}
	return p.takes.Claim(p.takes.Next, p.takes.NextEpoch), true
}

// commands are what a request is known to lead to before it is decided.
func (p *Pending) commands() []tree.Command {
	if p.cmd == nil {
		return nil
	}
	if claim, any := p.next(); any {
		return []tree.Command{p.cmd, claim}
	}
	return []tree.Command{p.cmd}
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
