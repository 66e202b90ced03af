package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/telemetry"
)

// measure tells those who measure what a commit has changed.
func (s *Service) measure(c store.Commit) {
	if s.measures == nil {
		return
	}
	s.measures.Committed(c.Commands, c.Refused, c.Took)
	for _, p := range c.Phases {
		s.measures.Passed(p.Session, *p.CompletedPhase)
	}
	for _, v := range c.SpawnOutcomes {
		s.measures.Judged(v)
	}
	for _, m := range c.Costs {
		s.measures.Spent(m.Model, m.Micros)
	}
}

// state says how the replica does. With an error it says nothing of work and approvals.
func (s *Service) state(ctx context.Context) (telemetry.State, error) {
	state := telemetry.State{Slots: int(s.slotsOfAll.Load()), Streams: s.census.slots(), Watchers: s.hub.count(), Silent: s.leases.silent(s.Now())}
	work, err := s.Store.Work(ctx)
	if err != nil {
		return state, err
	}
	if state.Asked, state.Unanswered, err = s.Store.OpenApprovals(ctx); err != nil {
		return state, err
	}
	state.Ready, state.Held, state.Running, state.Oldest = work.Ready, work.Held, work.Running, work.Waits
	return state, nil
}

// watched notes how far behind a watcher is that has just been given an event.
func (s *Service) watched(e *logged) {
	if s.measures != nil {
		s.measures.Watched(max(0, s.Now().Sub(e.at)))
	}
}

// reattachment notes that an attempt goes on over another stream.
func (s *Service) reattachment() {
	if s.measures != nil {
		s.measures.Reattached()
	}
}

// tookOver notes that a run was taken back from a replica that is gone.
func (s *Service) tookOver() {
	if s.measures != nil {
		s.measures.TakenOver()
	}
}
