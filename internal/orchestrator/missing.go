package orchestrator

import (
	"context"
	"time"
)

// missedAfter is how long there have to be no workers, and a run has to wait for one, until
// that is said, and missedAgain how long it is not said again: workers that go on with
// another replica, or start with it, are there sooner.
const (
	missedAfter = 5 * time.Second
	missedAgain = time.Minute
)

// missWorkers warns when runs wait and no replica has a worker.
func (s *Service) missWorkers(ctx context.Context) error {
	now := s.Now()
	if s.slotsOfAll.Load() > 0 {
		s.sweeper.without = time.Time{}
		return nil
	}
	if s.sweeper.without.IsZero() {
		s.sweeper.without = now
	}
	if now.Sub(s.sweeper.without) < missedAfter || now.Sub(s.sweeper.missed) < missedAgain {
		return nil
	}
	work, err := s.Store.Work(ctx)
	if err != nil || work.Ready == 0 || work.Waits < missedAfter {
		return err
	}
	s.sweeper.missed = now
	s.Logger.WarnContext(ctx, "runs wait, and there is no worker",
		"pool", s.Pool, "ready", work.Ready, "oldest_waits_for", work.Waits)
	return nil
}
