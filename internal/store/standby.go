package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// Standby has the slots of workers that wait for a run. What becomes ready while some do is
// claimed for them by the transaction that makes it ready: nothing is announced, and nobody
// has to come for it. Its methods are called by committers, several at once, and never wait.
type Standby interface {
	// IdleSlots is how many slots there are to take what is announced already, beside one that
	// waits; negative if none waits.
	IdleSlots() int
	// Take gives the slot that has waited for longest; nil if none waits.
	Take() Slot
}

// Slot is one that waits for a run.
type Slot interface {
	// Offer is what a run is claimed with.
	Offer() Offer
	// Assign says what the slot has got, once that is stored: a run, or nil; then it waits
	// again. It never waits, and comes before anybody else hears of the commit.
	Assign(*Assignment)
}

// Assignment is a run that was claimed for a slot that has waited.
type Assignment struct {
	*tree.Claimed
	CachedConversation
}

// CachedConversation is what the commit that has claimed a run knows of its conversation.
type CachedConversation struct {
	conversation *Conversation // of a run that was claimed for the first time
	woken        *wokenRun     // a run that was claimed again
}

// ConversationFromCache gives what the worker of a claimed run needs; nil if it has to be read.
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

// ClaimFor claims a run that was announced for a slot that waits, which hears of it by then. If
// that is refused, or not stored, the slot is the caller's to give back.
func (s *Store) ClaimFor(ctx context.Context, run Announced, to Slot) (*Pending, error) {
	offer := to.Offer()
	p := s.Prepare(run.Session, offer.claim(run.Task, run.Epoch), nil)
	p.slot = to
	return p, s.committerOf(run.Session).enqueue(ctx, p)
}

// slotAssignment is a run that a batch has claimed for a slot that waits.
type slotAssignment struct {
	slot      Slot
	claimed   *tree.Claimed
	requested bool // for that slot, by somebody who hears of a failure
}

// idleSlots is how many slots there are for what is announced, beside one that waits; negative if
// none waits.
func (b *batch) idleSlots() int {
	if b.standby == nil {
		return -1
	}
	return b.standby.IdleSlots()
}

// claimForStandby lets the slots that wait claim what has become ready: what somebody waits for first,
// then what was asked for first. Nobody has waited for longer, or it stays for its turn.
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

// readyRun is a run of a session that waits for a worker.
type readyRun struct {
	session tree.SessionID
	*tree.Ready
}

// newlyReady gives what has become ready with a batch, in the order in which it is to run.
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

// returnSlots has the slots wait again that a batch has claimed runs for which were not stored.
func (b *batch) returnSlots() {
	for _, g := range b.assignments {
		if !g.requested {
			g.slot.Assign(nil)
		}
	}
	b.assignments = nil
}

// notifySlots tells slots which runs a batch has claimed for them.
func (b *batch) notifySlots() {
	for _, g := range b.assignments {
		g.slot.Assign(&Assignment{g.claimed, b.cachedConversation(g.claimed)})
	}
}
