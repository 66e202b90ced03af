package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// Session returns a session of the tenant, and its root.
func (s *Service) Session(ctx context.Context, tenant string, id tree.SessionID) (*tree.Session, *tree.Task, error) {
	return s.Store.SessionAndRoot(ctx, tenant, id)
}

// Sessions returns a page of the tenant's sessions whose metadata contains all pairs of the filter,
// newest first. A page may have fewer sessions than asked for, even none.
func (s *Service) Sessions(ctx context.Context, tenant, token string, size int, filter map[string]string) (Page[tree.Session], error) {
	return s.Store.Sessions(ctx, tenant, token, size, filter)
}

// ExistingSessions returns those of the sessions that exist, in any tenant, in the given order.
func (s *Service) ExistingSessions(ctx context.Context, ids []tree.SessionID) ([]tree.SessionID, error) {
	return s.Store.ExistingSessions(ctx, ids)
}

// SessionRows returns what [tree.Diagnose] checks of a session of the tenant.
func (s *Service) SessionRows(ctx context.Context, tenant string, id tree.SessionID) (*tree.SessionRows, error) {
	rows, err := s.Store.Rows(ctx, id)
	if err == nil && rows.Session.Tenant != tenant {
		return nil, tree.ErrNoSession
	}
	return rows, err
}

// Tree returns a session of the tenant, its root, and all its tasks in the order of siblings.
func (s *Service) Tree(ctx context.Context, tenant string, id tree.SessionID) (*tree.Session, *tree.Task, []tree.Task, error) {
	session, root, err := s.Session(ctx, tenant, id)
	if err != nil {
		return nil, nil, nil, err
	}
	tasks, err := s.Store.Tree(ctx, id)
	return session, root, tasks, err
}

// Task returns a task of the session. The zero task is the root.
func (s *Service) Task(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	return s.Store.TaskOf(ctx, tenant, id, task)
}

// Tasks returns a task of the session and a page of its children, oldest first. With the zero id it
// returns the root and a page of all tasks.
func (s *Service) Tasks(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID, token string, size int) (*tree.Task, Page[tree.Task], error) {
	t, err := s.Task(ctx, tenant, id, task)
	if err != nil {
		return nil, Page[tree.Task]{}, err
	}
	page, err := s.Store.Tasks(ctx, id, task, token, size)
	return t, page, err
}

// Transcript returns at most limit of a task's own messages after an ordinal.
func (s *Service) Transcript(ctx context.Context, tenant string, t *tree.Task, after, limit int) ([]tree.Message, error) {
	messages, err := s.Store.Transcript(ctx, t.Session, t.ID, after, limit)
	return s.messagesOf(ctx, tenant, t, messages, err)
}

// Inherited returns the messages of other conversations that a task sees.
func (s *Service) Inherited(ctx context.Context, tenant string, t *tree.Task) ([]tree.Message, error) {
	messages, err := s.Store.Inherited(ctx, t.Session, t.ID)
	return s.messagesOf(ctx, tenant, t, messages, err)
}

// messagesOf returns what was read of a task, if the tenant has the task after that. The messages
// of a deleted session are removed in no particular order, so they are complete if the task exists
// after they were read.
func (s *Service) messagesOf(ctx context.Context, tenant string, t *tree.Task, read []tree.Message, err error) ([]tree.Message, error) {
	if _, gone := s.Store.TaskStatus(ctx, tenant, t.Session, t.ID); gone != nil {
		return nil, gone
	}
	return read, err
}

// HasResult reports whether the answer that ended a task's current run is its result. For a
// command, its output is the result however the command ended.
func HasResult(t *tree.Task) bool {
	return t.State == tree.StateCompleted || t.State.Terminal() && t.Kind == tree.KindShell
}

// Result returns the text of the answer that ended the task's current run, or the last words of a
// run that did not complete. Both are empty if the task has not ended or has no answer.
func (s *Service) Result(ctx context.Context, t *tree.Task) (answer, words string, err error) {
	if !t.State.Terminal() || t.Answer == 0 {
		return "", "", nil
	}
	outcome, err := s.Store.Outcome(ctx, t.Session, tree.ChildRun{Task: t.ID, Run: t.Run})
	return outcome.Answer, outcome.Words, err
}
