package store

import (
	"context"
	"time"
)

// Work counts the waiting and the running work.
type Work struct {
	Ready   int       // runs that only wait for a worker: one more worker could take one
	Held    int       // runs that wait for others of their session, tenant or installation to end
	Running int       // runs with workers
	Oldest  time.Time // since when the longest waiting of the Ready runs waits; zero: there is none

	Waits time.Duration // for how long that is, by the clock that set Oldest
}

// waitingRuns counts a tenant's waiting runs.
type waitingRuns struct {
	tenant string
	all    int
	fit    int // those within the caps of their sessions
	oldest time.Time
	waits  time.Duration
}

// carriedRuns counts a tenant's runs with workers.
type carriedRuns struct {
	tenant string
	all    int
	agents int // those that are not commands, which count for no cap
}

// Work counts the waiting and the running work.
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

// work sums up the counts under the caps.
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
