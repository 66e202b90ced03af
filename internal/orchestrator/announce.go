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
	minAnnounced     = 4
	announcePerSlot  = 6
	announcePerClaim = 2 // for each claim of late: a pace that rises finds enough
)

// announceLimit is how many runs may be announced and not claimed yet.
func (s *Service) announceLimit() int {
	most := announcePerSlot * max(int(s.totalSlots.Load()), s.slots.count())
	return max(minAnnounced, min(most, announcePerClaim*s.claimRate.recent(s.Now())))
}

// announceLease is how long an announcement may go without a claim before the
// replica looks whether it was lost.
const announceLease = 2 * time.Second

// announce picks runs whenever there may be something ready and room for it.
func (s *Service) announce(ctx context.Context) error {
	var looked time.Time
	for {
		select {
		case <-s.announceNow:
		case <-s.announceSoon:
			s.throttleAnnounce(ctx, looked)
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

// throttleAnnounce waits until it is time to look again, unless something is known to wait.
func (s *Service) throttleAnnounce(ctx context.Context, looked time.Time) {
	soon := time.NewTimer(time.Until(looked.Add(announceInterval)))
	defer soon.Stop()
	select {
	case <-soon.C:
	case <-s.announceNow:
	case <-ctx.Done():
	}
}

// announceSome announces as much as there is room for, and reports whether it
// found anything.
func (s *Service) announceSome(ctx context.Context) (bool, error) {
	room := s.announceLimit()
	if s.backlog.hasEnough(room) {
		return false, nil // the slot that takes one looks again
	}
	rows, err := s.Store.TakeReady(ctx, room, announceLease)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	s.backlog.add(time.Now(), s.dropReannounced(ctx, rows, room)...)
	return true, nil
}

// crowdedFactor is how much longer than its room the stream may be before nothing is
// announced again.
const crowdedFactor = 2

// dropReannounced leaves out the runs that were announced before, while the stream
// is crowded: when all workers are busy a hint waits longer than its lease, and
// doubled hints must not make the stream ever longer. On a stream that is not
// crowded a hint may have been lost, and a doubled one does no harm. Where a slot waits, the run
// does not go on the stream.
func (s *Service) dropReannounced(ctx context.Context, rows []store.Ready, room int) []store.Ready {
	if s.standby.hasWaiting() || s.backlog.isPaused(time.Now()) || !slices.ContainsFunc(rows, func(r store.Ready) bool { return r.Again }) {
		return rows
	}
	counting, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	waiting, err := s.Bus.StreamLength(counting, s.Pool)
	if err != nil {
		// Slots of this replica may still have them.
		s.Logger.DebugContext(ctx, "what is on the dispatch stream was not counted", "error", err)
	}
	if err != nil || waiting < crowdedFactor*room {
		return rows
	}
	return slices.DeleteFunc(rows, func(r store.Ready) bool { return r.Again })
}

// announceInterval is how long a replica may believe that nothing waits: what other replicas
// have left waiting it only sees when it looks.
const announceInterval = 50 * time.Millisecond

// announceMore makes the announcer look after a claim, since there is room for
// one more announcement, or after a run has made room for another one of its session: at once if
// something waits, otherwise when it has not looked for a while.
func (s *Service) announceMore() {
	if s.Store.Behind() {
		s.wakeAnnouncer()
		return
	}
	signal(s.announceSoon)
}
