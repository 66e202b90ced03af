package orchestrator

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/store"
)

// Few runs are announced at a time, so that what runs next is decided late, in
// SQL. They are what workers take while more is announced: a few where runs take
// long, so that whoever comes gets the next slot; more where they are short, but
// never more than announcePerSlot for each slot.
const (
	announceAtLeast = 4
	announcePerSlot = 6
	announcePerPace = 2 // for each claim of late: a pace that rises finds enough
)

// room is how many runs may be announced and not claimed yet.
func (s *Service) room() int {
	most := announcePerSlot * max(int(s.slotsOfAll.Load()), s.census.slots())
	return max(announceAtLeast, min(most, announcePerPace*s.claims.lately(s.Now())))
}

// announceLease is how long an announcement may go without a claim before the
// replica looks whether it was lost.
const announceLease = 2 * time.Second

// announce picks runs whenever there may be something ready and room for it.
func (s *Service) announce(ctx context.Context) error {
	var looked time.Time
	for {
		select {
		case <-s.kick:
		case <-s.later:
			s.unhurried(ctx, looked)
		case <-ctx.Done():
			return nil
		}
		looked = time.Now()
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.announceSome(ctx); err != nil && ctx.Err() == nil {
				// The rows stay due once their lease is over; the sweep looks again.
				s.Logger.WarnContext(ctx, "announcing failed", "error", err)
			}
		}
	}
}

// unhurried waits until it is time to look again, unless something is known to wait.
func (s *Service) unhurried(ctx context.Context, looked time.Time) {
	soon := time.NewTimer(time.Until(looked.Add(lookAgain)))
	defer soon.Stop()
	select {
	case <-soon.C:
	case <-s.kick:
	case <-ctx.Done():
	}
}

// announceSome announces as much as there is room for, and reports whether it
// found anything.
func (s *Service) announceSome(ctx context.Context) (bool, error) {
	room := s.room()
	if s.stock.enough(room) {
		return false, nil // the slot that takes one looks again
	}
	rows, err := s.Store.PickReady(ctx, room, announceLease)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	s.stock.add(time.Now(), s.withoutWaiting(ctx, rows, room)...)
	return true, nil
}

// crowded is how much longer than its room the stream may be before nothing is
// announced again.
const crowded = 2

// withoutWaiting leaves out the runs that were announced before, while the stream
// is crowded: when all workers are busy a hint waits longer than its lease, and
// doubled hints must not make the stream ever longer. On a stream that is not
// crowded a hint may have been lost, and a doubled one does no harm. Where a slot waits, the run
// does not go on the stream.
func (s *Service) withoutWaiting(ctx context.Context, rows []store.Ready, room int) []store.Ready {
	if s.standby.any() || s.stock.isAway(time.Now()) || !slices.ContainsFunc(rows, func(r store.Ready) bool { return r.Again }) {
		return rows
	}
	counting, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	waiting, err := s.Bus.Backlog(counting, s.Pool)
	if err != nil {
		// Slots of this replica may still have them.
		s.Logger.DebugContext(ctx, "what is on the dispatch stream was not counted", "error", err)
	}
	if err != nil || waiting < crowded*room {
		return rows
	}
	return slices.DeleteFunc(rows, func(r store.Ready) bool { return r.Again })
}

// lookAgain is how long a replica may believe that nothing waits: what other replicas
// have left waiting it only sees when it looks.
const lookAgain = 50 * time.Millisecond

// lookForMore makes the announcer look after a claim, since there is room for
// one more announcement, or after a run has made room for another one of its session: at once if
// something waits, otherwise when it has not looked for a while.
func (s *Service) lookForMore() {
	if s.Store.MayHaveBacklog() {
		s.lookForReady()
		return
	}
	poke(s.later)
}
