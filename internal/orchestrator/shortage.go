package orchestrator

import (
	"context"
	"time"
)

// shortageWarnAfter is how long what runs wait for has to be missing, and a run has to wait for it, until
// that is said, and missedAgain how long it is not said again: workers that go on with
// another replica, or start with it, are there sooner.
const (
	shortageWarnAfter = 5 * time.Second
	shortageWarnEvery = time.Minute
)

// shortage is what runs may wait for.
type shortage int

const (
	noShortage      shortage = iota
	noWorkers                // no replica has one
	idleNotClaiming          // slots are idle here, and don't come for what is on the dispatch stream
)

// warnShortage warns when runs wait that could be carried, and no replica has a worker, or idle
// slots of this one do not come for them.
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
		log.WarnContext(ctx, "runs wait, and there is no worker")
		return nil
	}
	log.WarnContext(ctx, "runs wait, and idle slots do not come for them; do their workers reach the same Redis?",
		"idle", s.slots.idle(), "installation", s.Store.Installation())
	return nil
}

// shortage says what runs miss, if any wait.
func (s *Service) shortage() shortage {
	switch {
	case s.totalSlots.Load() == 0:
		return noWorkers
	case s.slots.idle() > 0:
		return idleNotClaiming
	}
	return noShortage
}
