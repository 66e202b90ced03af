package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// Inherited reads what comes before a task's own messages: what it sees of the
// conversations that it goes on from.
func (s *Store) Inherited(ctx context.Context, session tree.SessionID, task tree.TaskID) ([]tree.Message, error) {
	var found []tree.Message
	err := s.db.snapshot(ctx, func(tx reader) error {
		chain, err := (&sessionReader{tx: tx, session: session}).lineage(ctx, task)
		found = transcript.Inherited(chain)
		return err
	})
	return found, err
}

// MessageByID reads a message of a task's own.
func (s *Store) MessageByID(ctx context.Context, session tree.SessionID, task tree.TaskID, id tree.MessageID) (*tree.Message, error) {
	var found *tree.Message
	err := s.db.snapshot(ctx, func(tx reader) error {
		row, err := one(ctx, tx, tree.ErrNoMessage.With("task %s has no message %s of its own", task, id),
			"message_by_id", storedMessageRow, idColumn(&session), idColumn(&task), idColumn(&id))
		if err != nil {
			return err
		}
		whole, err := (&sessionReader{tx: tx, session: session}).transcript(ctx, task, row.Ordinal-1, 1)
		if err == nil {
			found = &whole[0]
		}
		return err
	})
	return found, err
}

// lineage reads a task's own messages, and those of the conversations that it goes
// on from as far as it sees them. Since they never change, it is the same each
// time, however their tasks go on.
func (r *sessionReader) lineage(ctx context.Context, task tree.TaskID) ([]transcript.Link, error) {
	var chain []transcript.Link
	upTo := noLimit
	for {
		t, err := one(ctx, r.tx, tree.ErrNoTask, "task", taskRow, idColumn(&r.session), idColumn(&task))
		if err != nil {
			return nil, err
		}
		link := transcript.Link{Task: t.ID, Description: t.Description, Base: t.Base}
		if count := upTo - t.Base.First() + 1; count > 0 {
			if link.Messages, err = r.transcript(ctx, task, 0, count); err != nil {
				return nil, err
			}
		}
		chain = append(chain, link)
		if !t.Base.Inherits() {
			return chain, nil
		}
		task, upTo = t.Base.Task, t.Base.Message
	}
}
