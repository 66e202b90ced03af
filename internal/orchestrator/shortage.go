package orchestrator

import (
	"context"
	"time"
)

// A shortage is reported once it has lasted for shortageWarnAfter and a run has waited that long,
// and again at most each shortageWarnEvery. Workers that start with this replica, or move to it
// from another one, arrive sooner than shortageWarnAfter.
const (
	shortageWarnAfter = 5 * time.Second
	shortageWarnEvery = time.Minute
)

// shortage says why waiting runs are not claimed.
type shortage int

const (
	noShortage      shortage = iota
	noWorkers                // no replica has a worker
	idleNotClaiming          // slots are idle here, but do not claim the hints on the dispatch stream
)

// warnShortage warns when runs wait although no cap holds them back, and either no replica has a
// worker or idle slots of this replica do not claim them.
func (s *Service) warnShortage(ctx context.Context) error {
	now := s.Now()
	what := s.shortage()
	if what != s.sweepState.shortage {
		s.sweepState.shortage, s.sweepState.shortageSince = what, now
	}
	since := now.Sub(s.sweepState.shortageSince)
	if what == idleNotClaiming {
		since = min(since, s.claimRate.sinceLast(now))
	}
	if what == noShortage || since < shortageWarnAfter || now.Sub(s.sweepState.warnedAt) < shortageWarnEvery {
		return nil
	}
	work, err := s.Store.Work(ctx)
	if err != nil || work.Ready == 0 || work.Waits < shortageWarnAfter {
		return err
	}
	s.sweepState.warnedAt = now
	log := s.Logger.With("pool", s.Pool, "ready", work.Ready, "oldest_waits_for", work.Waits)
	if what == noWorkers {
		log.WarnContext(ctx, "runs are waiting, but no worker is connected")
		return nil
	}
	log.WarnContext(ctx, "runs are waiting, but idle slots do not claim them; check that workers and orchestrators use the same Redis",
		"idle", s.slots.idle(), "installation", s.Store.Installation())
	return nil
}

// shortage returns the shortage that runs would meet if any waited.
func (s *Service) shortage() shortage {
	switch {
	case s.totalSlots.Load() == 0:
		return noWorkers
	case s.slots.idle() > 0:
		return idleNotClaiming
	}
	return noShortage
}
