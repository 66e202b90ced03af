package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// Inherited reads the inherited messages of a task: those that it sees of the conversations it
// continues from.
func (s *Store) Inherited(ctx context.Context, session tree.SessionID, task tree.TaskID) ([]tree.Message, error) {
	chain, err := s.session(session).lineage(ctx, task)
	if err != nil {
		return nil, err
	}
	return transcript.Inherited(chain), nil
}

// MessageByID reads one of a task's own messages.
func (s *Store) MessageByID(ctx context.Context, session tree.SessionID, task tree.TaskID, id tree.MessageID) (*tree.Message, error) {
	missing := tree.ErrNoMessage.With("task %s has no message %s of its own", task, id)
	row, err := one(ctx, s.db, missing, "message_by_id", storedMessageRow, idColumn(&session), idColumn(&task), idColumn(&id))
	if err != nil {
		return nil, err
	}
	whole, err := s.session(session).transcript(ctx, task, row.Ordinal-1, 1)
	switch {
	case err != nil:
		return nil, err
	case len(whole) == 0: // it was deleted meanwhile
		return nil, missing
	}
	return &whole[0], nil
}

// lineage reads a task with its own messages, and more lookups in the same round trip. Then it
// reads the conversations that the task continues from, as far as the task sees them. These
// messages never change, so the result does not depend on how those tasks continue.
func (r *sessionReader) lineage(ctx context.Context, task tree.TaskID, more ...lookup) ([]transcript.Link, error) {
	var tasks []tree.Task
	var rows []messageAndBody
	whose := transcript.Key{Session: r.session, Task: task}
	seen, last := r.held.Get(whose), 0
	if len(seen) > 0 {
		last = seen[len(seen)-1].Ordinal
	}
	own := append(more, all(&tasks, "task", taskRow, idColumn(&r.session), idColumn(&task)), r.messagesLookup(&rows, &task, last, noLimit))
	if err := r.db.load(ctx, append(own, r.outcomeLookups(&task, last)...)...); err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, tree.ErrNoTask
	}
	t := &tasks[0]
	messages, err := r.assemble(ctx, rows, last)
	if err != nil {
		return nil, err
	}
	if len(messages) > 0 {
		messages = r.held.Extend(whose, seen, messages)
	} else {
		messages = seen
	}
	chain := []transcript.Link{{Task: t.ID, Description: t.Description, Base: t.Base, Messages: messages}}
	for base := t.Base; base.Inherits(); {
		before, err := r.before(ctx, base)
		if err != nil {
			return nil, err
		}
		chain, base = append(chain, before), before.Base
	}
	return chain, nil
}

// before reads a task's messages up to the message that another task continues from.
func (r *sessionReader) before(ctx context.Context, base tree.Base) (transcript.Link, error) {
	t, err := one(ctx, r.db, tree.ErrNoTask, "task", taskRow, idColumn(&r.session), idColumn(&base.Task))
	if err != nil {
		return transcript.Link{}, err
	}
	link := transcript.Link{Task: t.ID, Description: t.Description, Base: t.Base}
	if count := base.Message - t.Base.First() + 1; count > 0 {
		link.Messages, err = r.transcript(ctx, t.ID, 0, count)
	}
	return link, err
}
