package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// The sweep finds what a lost hint, timer or replica would have reported.
const (
	sweepInterval = time.Second
	timerBatch    = 1000
)

// replicaTimeout is how long a replica may be without a heartbeat before it counts as dead. It
// includes the grace, within which its workers may come back.
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
			{"commands to release", s.resendReleases},
			{"retention", s.deleteExpired},
			{"deleted sessions", s.purge},
			{"missing workers", s.warnShortage},
			{"records of old replicas", s.Store.ForgetSilentReplicas},
		} {
			if err := step.do(ctx); err != nil && ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "a sweep failed", "step", step.name, "error", err)
			}
		}
		s.wakeAnnouncer()
		if !s.Store.Exclusive() {
			s.hub.notifyAll() // a nudge may have been lost
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sweepState is what one sweep remembers for the next. Only the sweep uses it.
type sweepState struct {
	endedElsewhere map[attemptKey]bool      // held here, but not stored as attempts of this replica
	orphans        map[attemptKey]time.Time // stored as attempts of this replica, but not held here; since when

	silent map[string]int // other replicas that have attempts, but no heartbeats; in how many sweeps in a row

	retentionCursor tree.SessionID // the last session whose age was checked

	shortage      shortage // what waiting runs would lack
	shortageSince time.Time
	warnedAt      time.Time // when the shortage was last logged
}

// runHeartbeat records heartbeats of this replica until ctx ends. It is separate from the sweep,
// which may take longer than other replicas wait for a heartbeat.
func (s *Service) runHeartbeat(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		if err := s.heartbeat(ctx); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "a heartbeat failed", "error", err)
			s.assumeOthers()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// heartbeat records that this replica is alive, and learns whether others are, and how many slots
// there are in all.
func (s *Service) heartbeat(ctx context.Context) error {
	there, err := s.Store.Heartbeat(ctx, s.Replica, s.slots.count(), s.replicaTimeout())
	if err != nil {
		return err
	}
	s.contact.confirm(s.Now())
	s.totalSlots.Store(int64(there.Slots))
	s.hasOthers.Store(there.Replicas > 1)
	s.openStandby()
	return nil
}

// isSilent reports whether other replicas may believe that this one is dead, and take its runs. It
// takes none then: neither one that is claimed nor one that continues over another stream.
func (s *Service) isSilent() bool {
	return !s.Store.Exclusive() && s.contact.silence(s.Now()) > s.replicaTimeout()
}

// assumeOthers ends what only the only replica may do, once this replica has not been able to learn
// for long whether it is.
func (s *Service) assumeOthers() {
	if s.isSilent() {
		s.hasOthers.Store(true)
		s.openStandby()
	}
}

// openStandby lets slots stand by while this replica is the only one, and while Redis is away: then
// no hint of another replica could find them either. While it claims no runs, none stands by.
func (s *Service) openStandby() {
	s.standby.setOpen(!s.isSilent() && (!s.hasOthers.Load() || s.redisAway.Load()))
}

// recoverLostAttempts offers runs to others whose replica is dead, or that belong to this replica
// but are on no stream any more.
func (s *Service) recoverLostAttempts(ctx context.Context) error {
	lost, err := s.lostElsewhere(ctx)
	if err != nil {
		return err
	}
	held := s.leases.all() // before the rows are read, so that the rows are at least as new
	ours, err := s.Store.AttemptsOfReplica(ctx, s.Replica)
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

// silentSweeps is in how many sweeps in a row a replica has to be silent before it counts as dead.
// If the clock of the database is set ahead, every replica seems silent until its next heartbeat.
const silentSweeps = 3

// lostElsewhere returns the attempts of other replicas that are dead.
func (s *Service) lostElsewhere(ctx context.Context) ([]store.Attempt, error) {
	timeout, sweeps := s.replicaTimeout(), silentSweeps
	if s.Store.Exclusive() {
		// There is no other replica. Attempts of earlier processes have the grace from now on: while
		// there was no orchestrator, their workers could not come back.
		timeout, sweeps = 0, 1+int((s.Grace+sweepInterval-1)/sweepInterval)
	}
	silent, err := s.Store.LostAttempts(ctx, timeout)
	if err != nil {
		return nil, err
	}
	// Attempts of this replica are not lost, however late its heartbeats are.
	silent = slices.DeleteFunc(silent, func(a store.Attempt) bool { return a.Replica == s.Replica })
	if !s.Store.Exclusive() && s.contact.lasted(s.Now()) < s.replicaTimeout() {
		silent = nil // the database may have been away for the other replicas too, until this query
	}
	seen := map[string]int{}
	for _, a := range silent {
		seen[a.Replica] = s.sweepState.silent[a.Replica] + 1
	}
	s.sweepState.silent = seen
	return slices.DeleteFunc(silent, func(a store.Attempt) bool { return seen[a.Replica] < sweeps }), nil
}

// updateAll submits n independent commands and returns the error of each. They share their commits.
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

// orphanedAttempts returns the attempts of this replica that no stream has held for the grace. The
// time is measured here, because the rows are dated by another clock.
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

// revokeEnded tells the streams whose attempts were ended by another replica, in case the nudge was
// lost. An attempt that is held but not stored may be ending regularly at this moment, so an
// attempt is revoked only if two sweeps in a row find that.
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

// ignoreRedelivered turns errors into nil that say that the run has already been offered again.
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
