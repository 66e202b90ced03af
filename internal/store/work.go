package store

import (
	"context"
	"time"
)

// Work is what there is to do, and what is being done.
type Work struct {
	Ready   int       // runs that wait for a worker alone: one more would take one of them
	Held    int       // runs that wait until others of their session, their tenant or the installation have ended
	Running int       // runs that a worker has
	Oldest  time.Time // since when the ready one waits that has waited longest; zero: none does

	Waits time.Duration // how long that is, by the clock that has dated it
}

// waitingRuns is what waits of a tenant.
type waitingRuns struct {
	tenant string
	all    int
	fit    int // of them, within the caps of their sessions
	oldest time.Time
	waits  time.Duration
}

// carriedRuns is what workers have of a tenant.
type carriedRuns struct {
	tenant string
	all    int
	agents int // of them, without commands, which count for no cap
}

// Work counts what there is to do.
func (s *Store) Work(ctx context.Context) (*Work, error) {
	var waiting []waitingRuns
	var carried []carriedRuns
	err := s.db.load(ctx,
		all(&waiting, "work_waiting", func(w *waitingRuns) []any {
			return []any{&w.tenant, &w.all, &w.fit, timeColumn{&w.oldest}, durationColumn{&w.waits}}
		}, s.clock()),
		all(&carried, "work_carried", func(c *carriedRuns) []any { return []any{&c.tenant, &c.all, &c.agents} }))
	if err != nil {
		return nil, err
	}
	return s.Caps.work(waiting, carried), nil
}

// work sums up what there is under the caps.
func (c Caps) work(waiting []waitingRuns, carried []carriedRuns) *Work {
	work := &Work{}
	agents, ofTenant := 0, map[string]int{}
	for _, has := range carried {
		work.Running += has.all
		agents += has.agents
		ofTenant[has.tenant] = has.agents
	}
	for _, w := range waiting {
		fit := w.fit
		if c.Tenant > 0 {
			fit = min(fit, max(0, c.Tenant-ofTenant[w.tenant]))
		}
		work.Ready += fit
		work.Held += w.all - fit
		if fit > 0 && (work.Oldest.IsZero() || w.oldest.Before(work.Oldest)) {
			work.Oldest, work.Waits = w.oldest, max(0, w.waits)
		}
	}
	if over := work.Ready - max(0, c.All-agents); c.All > 0 && over > 0 {
		work.Ready -= over
		work.Held += over
	}
	if work.Ready == 0 {
		work.Oldest, work.Waits = time.Time{}, 0
	}
	return work
}
