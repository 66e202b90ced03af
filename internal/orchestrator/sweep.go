package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// The sweep finds by looking what a lost hint, a lost timer or a lost replica
// would have told.
const (
	sweepEvery   = time.Second
	timersAtOnce = 1000
)

// replicaDead is how long a replica is without a heartbeat that is gone: its workers may
// come back within the grace.
func (s *Service) replicaDead() time.Duration { return s.Grace + sweepEvery }

func (s *Service) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		for _, step := range []struct {
			name string
			do   func(context.Context) error
		}{
			{"workers", s.enlist},
			{"lost attempts", s.takeBack},
			{"timers", s.fireTimers},
			{"commands to let go", s.release},
			{"retention", s.retain},
			{"deleted sessions", s.purge},
			{"missing workers", s.missWorkers},
			{"replicas long gone", s.Store.ForgetSilentReplicas},
		} {
			if err := step.do(ctx); err != nil && ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "a sweep failed", "step", step.name, "error", err)
			}
		}
		s.lookForReady()
		if !s.Store.Exclusive() {
			s.hub.pokeAll() // a nudge may have been lost
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sweeper is what one sweep remembers for the next; nobody else looks at it.
type sweeper struct {
	ended   map[heldAttempt]bool      // held here, but no attempt of ours any more
	orphans map[heldAttempt]time.Time // ours, but not held here; since when

	retained tree.SessionID // the last session that was looked at for its age

	missing missing   // what runs would miss
	since   time.Time // since when
	missed  time.Time // when it was last said that they do
}

// stayAlive tells of this replica again and again, beside the sweep, which may take longer
// than others wait for a sign of life.
func (s *Service) stayAlive(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.beat(ctx); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "a heartbeat failed", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// beat says that this replica is alive, and learns whether others are, and how much all
// workers can do.
func (s *Service) beat(ctx context.Context) error {
	there, err := s.Store.Heartbeat(ctx, s.Replica, s.census.slots(), s.replicaDead())
	if err != nil {
		return err
	}
	s.slotsOfAll.Store(int64(there.Slots))
	s.others.Store(there.Replicas > 1)
	s.standby.open(there.Replicas <= 1)
	return nil
}

// takeBack offers the runs again whose replica is gone, or that are ours but on
// no stream any more.
func (s *Service) takeBack(ctx context.Context) error {
	lost, err := s.Store.LostAttempts(ctx, s.replicaDead())
	if err != nil {
		return err
	}
	// Ours are not lost, however long our heartbeats may have been held up.
	lost = slices.DeleteFunc(lost, func(a store.Attempt) bool { return a.Replica == s.Replica })
	held := s.leases.all() // before the rows, which may be newer
	ours, err := s.Store.AttemptsOfReplica(ctx, s.Replica)
	if err != nil {
		return err
	}
	s.revokeEnded(held, ours)
	attempts := append(lost, s.orphaned(ours)...)
	var failed error
	for i, err := range s.updates(ctx, len(attempts), func(i int) (tree.SessionID, tree.Command) {
		a := &attempts[i]
		return a.Session, tree.Redeliver{Task: a.Task, Epoch: a.Epoch, Attach: a.Attach}
	}) {
		if err == nil && i < len(lost) {
			s.tookOver()
		}
		failed = errors.Join(failed, unlessRedelivered(err))
	}
	return failed
}

// updates lets n commands be decided that have nothing to do with each other, and gives how
// each came out. They share their commits.
func (s *Service) updates(ctx context.Context, n int, command func(i int) (tree.SessionID, tree.Command)) []error {
	queued, errs := make([]*store.Pending, n), make([]error, n)
	for i := range n {
		id, cmd := command(i)
		queued[i], errs[i] = s.Store.Submit(ctx, id, cmd)
	}
	for i, p := range queued {
		if errs[i] == nil {
			_, errs[i] = p.Wait(ctx)
		}
	}
	return errs
}

// orphaned gives the attempts of ours that no stream has held for a while. The
// time is counted here, since the rows are dated by another clock.
func (s *Service) orphaned(ours []store.Attempt) []store.Attempt {
	var lost []store.Attempt
	orphans := map[heldAttempt]time.Time{}
	for _, a := range ours {
		if s.leases.holds(a.Task, a.Epoch) {
			continue
		}
		key := heldAttempt{a.Task, a.Epoch}
		since, known := s.sweeper.orphans[key]
		if !known {
			since = s.Now()
		}
		orphans[key] = since
		if s.Now().Sub(since) >= s.Grace {
			lost = append(lost, a)
		}
	}
	s.sweeper.orphans = orphans
	return lost
}

// revokeEnded tells the streams whose attempts were ended by another replica, in
// case the nudge was lost. One that was not held by the rows just now may be
// ending by itself: only what is seen twice is revoked.
func (s *Service) revokeEnded(held []heldAttempt, ours []store.Attempt) {
	known := make(map[heldAttempt]bool, len(ours))
	for _, a := range ours {
		known[heldAttempt{a.Task, a.Epoch}] = true
	}
	ended := map[heldAttempt]bool{}
	for _, h := range held {
		if known[h] {
			continue
		}
		ended[h] = true
		if s.sweeper.ended[h] {
			s.leases.revoke(tree.SessionID{}, h.task, h.epoch)
		}
	}
	s.sweeper.ended = ended
}

// unlessRedelivered leaves out of the refusals to offer a run again those that say that
// somebody else has done so already.
func unlessRedelivered(err error) error {
	if errors.Is(err, tree.ErrStale) || errors.Is(err, tree.ErrNoTask) || errors.Is(err, tree.ErrNoSession) {
		return nil
	}
	return err
}

func (s *Service) fireTimers(ctx context.Context) error {
	due, err := s.Store.DueTimers(ctx, timersAtOnce)
	if err != nil {
		return err
	}
	return errors.Join(s.updates(ctx, len(due), func(i int) (tree.SessionID, tree.Command) {
		return due[i].Session, tree.Expire{Task: due[i].Task, Ref: due[i].Ref, Due: due[i].Due}
	})...)
}
