package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// Standby manages the slots that stand by. A run that becomes ready while a slot stands by is
// claimed for it by the same transaction, so it need not be announced, and nobody has to fetch it.
// Its methods are called by committers, several concurrently, and must not block.
type Standby interface {
	// IdleSlots is how many slots are left for announced runs if one slot that stands by is taken;
	// negative if none stands by.
	IdleSlots() int
	// Take removes and returns the slot that has stood by longest; nil if none stands by.
	Take() Slot
}

// Slot is a slot that stands by.
type Slot interface {
	// Offer is what a run is claimed with.
	Offer() Offer
	// Assign gives the slot its run, once the claim is stored. nil says that there is none, and the
	// slot stands by again. It must not block, and is called before OnCommit.
	Assign(*Assignment)
}

// Assignment is a run that was claimed for a slot that stood by.
type Assignment struct {
	*tree.Claimed
	CachedConversation
}

// CachedConversation is what the commit that has claimed a run knows of its conversation.
type CachedConversation struct {
	conversation *Conversation // of a run that was claimed for the first time
	woken        *wokenRun     // of a run that was claimed again, such as after a wait
}

// ConversationFromCache gives the conversation of a claimed run from what its commit knew; nil if
// it has to be read.
func (s *Store) ConversationFromCache(ctx context.Context, known CachedConversation) (*Conversation, error) {
	if known.woken != nil {
		return known.woken.conversation(ctx, s)
	}
	return known.conversation, nil
}

// cachedConversation is what the batch knows of the conversation of a run that it has claimed.
func (b *batch) cachedConversation(claimed *tree.Claimed) CachedConversation {
	return CachedConversation{b.newConversation(claimed), b.wokenRun(claimed)}
}

// ClaimFor claims an announced run for a slot, which is assigned to it. If the claim is refused or
// not stored, the caller has to let the slot stand by again.
func (s *Store) ClaimFor(ctx context.Context, run Announced, to Slot) (*Pending, error) {
	offer := to.Offer()
	p := s.Prepare(run.Session, offer.claim(run.Task, run.Epoch), nil)
	p.slot = to
	return p, s.committerOf(run.Session).enqueue(ctx, p)
}

// slotAssignment is a run that a batch has claimed for a slot.
type slotAssignment struct {
	slot      Slot
	claimed   *tree.Claimed
	requested bool // by ClaimFor, whose caller hears of a failure
}

// idleSlots is Standby.IdleSlots; negative if no slot stands by.
func (b *batch) idleSlots() int {
	if b.standby == nil {
		return -1
	}
	return b.standby.IdleSlots()
}

// claimForStandby claims runs that have become ready for the slots that stand by: foreground runs
// first, then in order of arrival. It does so only if no other run needs these slots: none waits
// for its turn, and other slots are idle for those that are announced.
func (b *batch) claimForStandby(ctx context.Context) error {
	if spare := b.idleSlots(); spare < 0 || !b.window.fitsIdleSlots(spare) {
		return nil
	}
	for _, next := range b.newlyReady() {
		slot := b.standby.Take()
		if slot == nil {
			return nil
		}
		offer := slot.Offer()
		claimed, _, err := b.claim(ctx, next.session, offer.claim(next.Task, next.Epoch)) // it waits for its turn if the session runs as many as it may
		if claimed == nil {
			slot.Assign(nil)
		} else {
			b.assignments = append(b.assignments, slotAssignment{slot: slot, claimed: claimed})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readyRun is a ready run with its session.
type readyRun struct {
	session tree.SessionID
	*tree.Ready
}

// newlyReady gives the runs that the batch has made ready, in the order in which they are to run.
func (b *batch) newlyReady() (runs []readyRun) {
	for _, id := range b.order {
		ready := b.sessions[id].view.Changes().Ready
		for _, task := range inOrder(ready) {
			if r := ready[task]; r != nil {
				runs = append(runs, readyRun{id, r})
			}
		}
	}
	slices.SortStableFunc(runs, func(a, b readyRun) int { return cmp.Compare(a.Priority, b.Priority) })
	return runs
}

// returnSlots lets the slots of a failed batch stand by again.
func (b *batch) returnSlots() {
	for _, g := range b.assignments {
		if !g.requested {
			g.slot.Assign(nil)
		}
	}
	b.assignments = nil
}

// notifySlots gives slots the runs that the batch has claimed for them, or only those that may begin
// early.
func (b *batch) notifySlots(early bool) {
	left := b.assignments[:0]
	for _, g := range b.assignments {
		if early {
			if offer := g.slot.Offer(); !offer.mayBegin(g.claimed) {
				left = append(left, g)
				continue
			}
		}
		g.slot.Assign(&Assignment{g.claimed, b.cachedConversation(g.claimed)})
	}
	b.assignments = left
}
