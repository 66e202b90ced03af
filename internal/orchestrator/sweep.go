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
	sweepInterval = time.Second
	timerBatch    = 1000
)

// replicaTimeout is how long a replica is without a heartbeat that is gone: its workers may
// come back within the grace.
func (s *Service) replicaTimeout() time.Duration { return s.Grace + sweepInterval }

func (s *Service) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		for _, step := range []struct {
			name string
			do   func(context.Context) error
		}{
			{"workers", s.syncWorkers},
			{"lost attempts", s.recoverLostAttempts},
			{"timers", s.fireTimers},
			{"commands to let go", s.resendReleases},
			{"retention", s.deleteExpired},
			{"deleted sessions", s.purge},
			{"missing workers", s.warnShortage},
			{"replicas long gone", s.Store.Forget},
		} {
			if err := step.do(ctx); err != nil && ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "a sweep failed", "step", step.name, "error", err)
			}
		}
		s.wakeAnnouncer()
		if !s.Store.Alone() {
			s.hub.notifyAll() // a nudge may have been lost
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sweepState is what one sweep remembers for the next; nobody else looks at it.
type sweepState struct {
	endedElsewhere map[attemptKey]bool      // held here, but no attempt of ours any more
	orphans        map[attemptKey]time.Time // ours, but not held here; since when

	retentionCursor tree.SessionID // the last session that was looked at for its age

	shortage      shortage  // what runs would miss
	shortageSince time.Time // since when
	warnedAt      time.Time // when it was last said that they do
}

// runHeartbeat tells of this replica again and again, beside the sweep, which may take longer
// than others wait for a sign of life.
func (s *Service) runHeartbeat(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		if err := s.heartbeat(ctx); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "a heartbeat failed", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// heartbeat says that this replica is alive, and learns whether others are, and how much all
// workers can do.
func (s *Service) heartbeat(ctx context.Context) error {
	there, err := s.Store.Beat(ctx, s.Replica, s.slots.count(), s.replicaTimeout())
	if err != nil {
		return err
	}
	s.totalSlots.Store(int64(there.Slots))
	s.hasOthers.Store(there.Replicas > 1)
	s.standby.setOpen(there.Replicas <= 1)
	return nil
}

// recoverLostAttempts offers the runs again whose replica is gone, or that are ours but on
// no stream any more.
func (s *Service) recoverLostAttempts(ctx context.Context) error {
	lost, err := s.Store.LostAttempts(ctx, s.replicaTimeout())
	if err != nil {
		return err
	}
	// Ours are not lost, however long our heartbeats may have been held up.
	lost = slices.DeleteFunc(lost, func(a store.Attempt) bool { return a.Replica == s.Replica })
	held := s.leases.all() // before the rows, which may be newer
	ours, err := s.Store.AttemptsOf(ctx, s.Replica)
	if err != nil {
		return err
	}
	s.revokeEnded(held, ours)
	attempts := append(lost, s.orphanedAttempts(ours)...)
	var failed error
	for i, err := range s.updateAll(ctx, len(attempts), func(i int) (tree.SessionID, tree.Command) {
		a := &attempts[i]
		return a.Session, tree.Redeliver{Task: a.Task, Epoch: a.Epoch, Attach: a.Attach}
	}) {
		if err == nil && i < len(lost) {
			s.recordTakeover()
		}
		failed = errors.Join(failed, ignoreRedelivered(err))
	}
	return failed
}

// updateAll lets n commands be decided that have nothing to do with each other, and gives how
// each came out. They share their commits.
func (s *Service) updateAll(ctx context.Context, n int, command func(i int) (tree.SessionID, tree.Command)) []error {
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

// orphanedAttempts gives the attempts of ours that no stream has held for a while. The
// time is counted here, since the rows are dated by another clock.
func (s *Service) orphanedAttempts(ours []store.Attempt) []store.Attempt {
	var lost []store.Attempt
	orphans := map[attemptKey]time.Time{}
	for _, a := range ours {
		if s.leases.holds(a.Task, a.Epoch) {
			continue
		}
		key := attemptKey{a.Task, a.Epoch}
		since, known := s.sweepState.orphans[key]
		if !known {
			since = s.Now()
		}
		orphans[key] = since
		if s.Now().Sub(since) >= s.Grace {
			lost = append(lost, a)
		}
	}
	s.sweepState.orphans = orphans
	return lost
}

// revokeEnded tells the streams whose attempts were ended by another replica, in
// case the nudge was lost. One that was not held by the rows just now may be
// ending by itself: only what is seen twice is revoked.
func (s *Service) revokeEnded(held []attemptKey, ours []store.Attempt) {
	known := make(map[attemptKey]bool, len(ours))
	for _, a := range ours {
		known[attemptKey{a.Task, a.Epoch}] = true
	}
	ended := map[attemptKey]bool{}
	for _, h := range held {
		if known[h] {
			continue
		}
		ended[h] = true
		if s.sweepState.endedElsewhere[h] {
			s.leases.revoke(tree.SessionID{}, h.task, h.epoch)
		}
	}
	s.sweepState.endedElsewhere = ended
}

// ignoreRedelivered leaves out of the refusals to offer a run again those that say that
// somebody else has done so already.
func ignoreRedelivered(err error) error {
	if errors.Is(err, tree.ErrStale) || errors.Is(err, tree.ErrNoTask) || errors.Is(err, tree.ErrNoSession) {
		return nil
	}
	return err
}

func (s *Service) fireTimers(ctx context.Context) error {
	due, err := s.Store.DueTimers(ctx, timerBatch)
	if err != nil {
		return err
	}
	return errors.Join(s.updateAll(ctx, len(due), func(i int) (tree.SessionID, tree.Command) {
		return due[i].Session, tree.Expire{Task: due[i].Task, Ref: due[i].Ref, Due: due[i].Due}
	})...)
}
