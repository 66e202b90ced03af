package orchestrator

import (
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// Inbox returns what is queued for a task, in the order in which it will be taken in. The zero task
// is the current branch.
func (s *Service) Inbox(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (tree.TaskID, []tree.InboxEntry, error) {
	session, err := s.Store.Session(ctx, tenant, id)
	if err != nil {
		return tree.TaskID{}, nil, err
	}
	t, err := s.Store.Task(ctx, id, session.OrCurrent(task))
	if err != nil {
		return tree.TaskID{}, nil, err
	}
	entries, err := s.Store.Inbox(ctx, id, t.ID)
	slices.SortStableFunc(entries, func(a, b tree.InboxEntry) int { return rank(a) - rank(b) })
	return t.ID, entries, err
}

// rank sorts users' messages before news of children.
func rank(e tree.InboxEntry) int {
	if (e.News == tree.ChildRun{}) {
		return 0
	}
	return 1
}

// ClearInbox removes what is queued for a task. The zero task is the current branch.
func (s *Service) ClearInbox(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID, news bool) (tree.Cleared, error) {
	return update[tree.Cleared](ctx, s, tenant, id, tree.ClearInbox{Task: task, News: news})
}
