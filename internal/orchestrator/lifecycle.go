package orchestrator

import (
	"context"
	"errors"

	"github.com/coppice-run/coppice/internal/tree"
)

// ChangeSession changes the title or the budget of a session. The budget is limited to that of the
// orchestrator.
func (s *Service) ChangeSession(ctx context.Context, tenant string, id tree.SessionID, change tree.ChangeSession) error {
	if change.Budget != nil {
		change.Budget = new(change.Budget.Within(s.Budget))
	}
	_, err := update[tree.Done](ctx, s, tenant, id, change)
	return err
}

// CloseSession ends a session, and returns the number of runs that this ended.
func (s *Service) CloseSession(ctx context.Context, tenant string, id tree.SessionID, why string) (int, error) {
	return s.endSession(ctx, tenant, id, tree.CloseSession{Detail: why})
}

// DeleteSession deletes a session, and returns the number of runs that this ended. The session is
// gone at once; its rows are removed in steps.
func (s *Service) DeleteSession(ctx context.Context, tenant string, id tree.SessionID) (int, error) {
	return s.endSession(ctx, tenant, id, tree.DeleteSession{})
}

func (s *Service) endSession(ctx context.Context, tenant string, id tree.SessionID, cmd tree.Command) (int, error) {
	closed, err := update[tree.Closed](ctx, s, tenant, id, cmd)
	return closed.Runs, err
}

// Bounds of what a sweep does to delete sessions.
const (
	purgeSteps  = 100
	purgeFor    = sweepInterval / 4 // the maximum duration of the steps
	retainBatch = 500               // how many sessions are checked for their age
)

// purge removes rows of deleted sessions, within the bounds of a sweep. The next sweep removes what
// is left. If several replicas purge, they share the work.
func (s *Service) purge(ctx context.Context) error {
	began := s.Now()
	for range purgeSteps {
		more, err := s.Store.Purge(ctx)
		if err != nil || !more || s.Now().Sub(began) >= purgeFor {
			return err
		}
	}
	return nil
}

// deleteExpired deletes sessions without activity for the retention time. Each sweep checks the
// next batch of sessions.
func (s *Service) deleteExpired(ctx context.Context) error {
	if s.Retain <= 0 {
		return nil
	}
	old, last, err := s.Store.InactiveSessions(ctx, s.Retain, s.sweepState.retentionCursor, retainBatch)
	if err != nil {
		return err
	}
	s.sweepState.retentionCursor = last
	// The command checks the age again, by the clock of the database: a session that has become
	// active meanwhile stays.
	var failed error
	for _, err := range s.updateAll(ctx, len(old), func(i int) (tree.SessionID, tree.Command) {
		return old[i], tree.DeleteSession{IdleFor: s.Retain}
	}) {
		if code := tree.CodeOf(err); err != nil && code != tree.CodePrecondition && code != tree.CodeNotFound {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
