package orchestrator

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/store"
)

// Few runs are announced at a time, so that the next run is chosen late, in SQL. The announced runs
// keep the workers busy while more are picked. Where runs take long a few suffice, and a new run
// can be chosen for the next free slot. Where runs are short more are announced, but never more
// than announcePerSlot for each slot.
const (
	minAnnounced     = 4
	announcePerSlot  = 6
	announcePerClaim = 2 // for each recent claim; a factor above 1 lets the rate rise
)

// announceLimit returns how many runs may be announced and not yet claimed.
func (s *Service) announceLimit() int {
	most := announcePerSlot * max(int(s.totalSlots.Load()), s.slots.count())
	return max(minAnnounced, min(most, announcePerClaim*s.claimRate.recent(s.Now())))
}

// announceLease is how long an announced run may stay unclaimed before the replica checks whether
// its hint was lost.
const announceLease = 2 * time.Second

// announce picks runs until ctx ends, whenever a run may be ready and there is room for it.
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
				// The rows become due again when their lease expires; the sweep looks for them.
				s.Bus.LogFailure(ctx, "announcing failed", err)
			}
		}
	}
}

// throttleAnnounce waits for the end of announceInterval, or until a run is known to wait.
func (s *Service) throttleAnnounce(ctx context.Context, looked time.Time) {
	soon := time.NewTimer(time.Until(looked.Add(announceInterval)))
	defer soon.Stop()
	select {
	case <-soon.C:
	case <-s.announceNow:
	case <-ctx.Done():
	}
}

// announceSome announces as many runs as there is room for, and reports whether it found any.
func (s *Service) announceSome(ctx context.Context) (bool, error) {
	room := s.announceLimit()
	if s.backlog.hasEnough(room) {
		return false, nil // a slot that takes one wakes the announcer
	}
	rows, err := s.Store.PickReady(ctx, room, announceLease)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	s.backlog.add(time.Now(), s.dropReannounced(ctx, rows, room)...)
	return true, nil
}

// crowdedFactor times announceLimit is the length of the stream from which on nothing is announced
// again.
const crowdedFactor = 2

// dropReannounced leaves out runs that were announced before while the stream is crowded. When all
// workers are busy, a hint waits longer than its lease, and duplicate hints must not make the
// stream ever longer. On a stream that is not crowded a hint may have been lost, and a duplicate
// does no harm. If a slot stands by, nothing is left out, because the run does not go on the
// stream.
func (s *Service) dropReannounced(ctx context.Context, rows []store.Ready, room int) []store.Ready {
	if s.standby.hasWaiting() || s.backlog.isPaused(time.Now()) || !slices.ContainsFunc(rows, func(r store.Ready) bool { return r.Again }) {
		return rows
	}
	counting, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	waiting, err := s.Bus.StreamLength(counting, s.Pool)
	if err != nil {
		// Slots of this replica can still take the runs.
		s.Logger.DebugContext(ctx, "counting the hints on the dispatch stream failed", "error", err)
	}
	if err != nil || waiting < crowdedFactor*room {
		return rows
	}
	return slices.DeleteFunc(rows, func(r store.Ready) bool { return r.Again })
}

// announceInterval is how long a replica may assume that no run waits. It sees runs that other
// replicas left waiting only when it looks.
const announceInterval = 50 * time.Millisecond

// announceMore wakes the announcer after a claim, which makes room for one more announcement, or
// after a run has made room for another one of its session. The announcer looks at once if a run is
// known to wait, and otherwise at most once per announceInterval.
func (s *Service) announceMore() {
	if s.Store.MayHaveQueuedRuns() {
		s.wakeAnnouncer()
		return
	}
	signal(s.announceSoon)
}
