package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/telemetry"
)

// recordCommit records a commit in the metrics.
func (s *Service) recordCommit(c store.Commit) {
	if s.metrics == nil {
		return
	}
	s.metrics.Committed(c.Commands, c.Refused, c.Took)
	for _, p := range c.Phases {
		s.metrics.Passed(p.Session, *p.CompletedPhase)
	}
	for _, v := range c.SpawnOutcomes {
		s.metrics.Judged(v)
	}
	for _, m := range c.Costs {
		s.metrics.Spent(m.Model, m.Micros)
	}
}

// metricsState returns the state of the replica for the metrics. If it returns an error, work and
// approvals are not set.
func (s *Service) metricsState(ctx context.Context) (telemetry.ReplicaState, error) {
	state := telemetry.ReplicaState{Slots: int(s.totalSlots.Load()), Streams: s.slots.count(), Watchers: s.hub.countObservers(), LongestSilence: s.leases.longestSilence(s.Now())}
	work, err := s.Store.Work(ctx)
	if err != nil {
		return state, err
	}
	if state.OpenApprovals, state.OldestApproval, err = s.Store.OpenApprovals(ctx); err != nil {
		return state, err
	}
	state.Ready, state.Held, state.Running, state.OldestReady = work.Ready, work.Held, work.Running, work.Waits
	return state, nil
}

// recordWatchLag records how far behind an event was when its watcher got it.
func (s *Service) recordWatchLag(e *watchEvent) {
	if s.metrics != nil {
		s.metrics.Watched(max(0, s.Now().Sub(e.at)))
	}
}

// recordReattach records that an attempt continues over another stream.
func (s *Service) recordReattach() {
	if s.metrics != nil {
		s.metrics.Reattached()
	}
}

// recordTakeover records that a run was taken back from a dead replica.
func (s *Service) recordTakeover() {
	if s.metrics != nil {
		s.metrics.TakenOver()
	}
}
