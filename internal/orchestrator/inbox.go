package orchestrator

import (
	"context"
	"errors"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// Inbox lists what waits for a task, the zero task being the current one, in the order
// in which it will be taken in.
func (s *Service) Inbox(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (tree.TaskID, []tree.InboxEntry, error) {
	session, err := s.Store.Session(ctx, tenant, id)
	if err != nil {
		return tree.TaskID{}, nil, err
	}
	if task.IsZero() {
		task = session.CurrentTask()
	}
	t, err := s.Store.Task(ctx, id, task)
	if err != nil {
		return tree.TaskID{}, nil, err
	}
	entries, err := s.Store.Inbox(ctx, id, t.ID)
	slices.SortStableFunc(entries, func(a, b tree.InboxEntry) int { return rank(a) - rank(b) })
	return t.ID, entries, err
}

// rank puts users' messages before news of children.
func rank(e tree.InboxEntry) int {
	if (e.News == tree.ChildRun{}) {
		return 0
	}
	return 1
}

// ClearInbox takes away what waits for a task, the zero task being the current one.
func (s *Service) ClearInbox(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID, news bool) (tree.Cleared, error) {
	return update[tree.Cleared](ctx, s, tenant, id, tree.ClearInbox{Task: task, News: news}, Request{})
}

// ChangeSession gives a session another title or budget; a budget as far as each may have.
func (s *Service) ChangeSession(ctx context.Context, tenant string, id tree.SessionID, change tree.ChangeSession) error {
	if change.Budget != nil {
		change.Budget = new(change.Budget.Within(s.Budget))
	}
	_, err := update[tree.Done](ctx, s, tenant, id, change, Request{})
	return err
}

// CloseSession ends a session, and says how many runs that has ended.
func (s *Service) CloseSession(ctx context.Context, tenant string, id tree.SessionID, why string) (int, error) {
	return s.end(ctx, tenant, id, tree.CloseSession{Detail: why})
}

// DeleteSession makes a session not exist any more; its rows go in steps.
func (s *Service) DeleteSession(ctx context.Context, tenant string, id tree.SessionID) (int, error) {
	return s.end(ctx, tenant, id, tree.DeleteSession{})
}

func (s *Service) end(ctx context.Context, tenant string, id tree.SessionID, cmd tree.Command) (int, error) {
	closed, err := update[tree.Closed](ctx, s, tenant, id, cmd, Request{})
	return closed.Runs, err
}

// How much a sweep does for sessions that are to go.
const (
	purgeSteps = 100            // at most,
	purgeFor   = sweepEvery / 4 // and for so long
	retainLook = 500            // sessions looked at for their age
)

// purge removes rows of sessions that were deleted, as long as a sweep may. Of what many want
// to have removed each replica has its part; what is left is for the next sweep.
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

// retain deletes sessions in which nothing has happened for as long as sessions are
// kept. Each sweep looks at some, one after another.
func (s *Service) retain(ctx context.Context) error {
	if s.Retain <= 0 {
		return nil
	}
	old, last, err := s.Store.IdleSessions(ctx, s.Retain, s.sweeper.retained, retainLook)
	if err != nil {
		return err
	}
	s.sweeper.retained = last
	// Whether one may go is decided anew, by the clock of the database: what has begun again
	// meanwhile is refused, and stays.
	var failed error
	for _, err := range s.updates(ctx, len(old), func(i int) (tree.SessionID, tree.Command) {
		return old[i], tree.DeleteSession{IdleFor: s.Retain}
	}) {
		if code := tree.CodeOf(err); err != nil && code != tree.CodePrecondition && code != tree.CodeNotFound {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
