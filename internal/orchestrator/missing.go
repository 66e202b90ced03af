package orchestrator

import (
	"context"
	"time"
)

// missedAfter is how long what runs wait for has to be missing, and a run has to wait for it, until
// that is said, and missedAgain how long it is not said again: workers that go on with
// another replica, or start with it, are there sooner.
const (
	missedAfter = 5 * time.Second
	missedAgain = time.Minute
)

// missing is what runs may wait for.
type missing int

const (
	nothing missing = iota
	workers         // no replica has one
	takers          // slots are idle here, and don't come for what is on the dispatch stream
)

// missWorkers warns when runs wait that could be carried, and no replica has a worker, or idle
// slots of this one do not come for them.
func (s *Service) missWorkers(ctx context.Context) error {
	now := s.Now()
	what := s.missing()
	if what != s.sweeper.missing {
		s.sweeper.missing, s.sweeper.since = what, now
	}
	since := now.Sub(s.sweeper.since)
	if what == takers {
		since = min(since, s.claimRate.sinceLast(now))
	}
	if what == nothing || since < missedAfter || now.Sub(s.sweeper.missed) < missedAgain {
		return nil
	}
	work, err := s.Store.Work(ctx)
	if err != nil || work.Ready == 0 || work.Waits < missedAfter {
		return err
	}
	s.sweeper.missed = now
	log := s.Logger.With("pool", s.Pool, "ready", work.Ready, "oldest_waits_for", work.Waits)
	if what == workers {
		log.WarnContext(ctx, "runs wait, and there is no worker")
		return nil
	}
	log.WarnContext(ctx, "runs wait, and idle slots do not come for them; do their workers reach the same Redis?",
		"idle", s.census.idle(), "installation", s.Store.Installation())
	return nil
}

// missing says what runs miss, if any wait.
func (s *Service) missing() missing {
	switch {
	case s.slotsOfAll.Load() == 0:
		return workers
	case s.census.idle() > 0:
		return takers
	}
	return nothing
}
