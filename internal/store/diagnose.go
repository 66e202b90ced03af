package store

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Rows reads everything that the rules of a session are about, in one snapshot.
func (s *Store) Rows(ctx context.Context, id tree.SessionID) (*tree.Rows, error) {
	r := &tree.Rows{}
	err := s.db.snapshot(ctx, func(tx reader) error {
		session, err := one(ctx, tx, tree.ErrNoSession, "session", plainSessionRow, idColumn(&id))
		if err != nil {
			return err
		}
		r.Session = *session
		if r.Tasks, err = query(ctx, tx, "tree", taskRow, idColumn(&id)); err != nil {
			return err
		}
		if r.OpenCalls, err = query(ctx, tx, "session_calls", plainCallRow, idColumn(&id), tree.CallClosed); err != nil {
			return err
		}
		if r.Runs, err = query(ctx, tx, "session_runs", plainRunRow, idColumn(&id)); err != nil {
			return err
		}
		if r.Inbox, err = query(ctx, tx, "session_inbox", plainInboxRow, idColumn(&id)); err != nil {
			return err
		}
		if r.Callbacks, err = query(ctx, tx, "session_callbacks", plainCallbackRow, idColumn(&id)); err != nil {
			return err
		}
		if err := s.deliveries(ctx, tx, id, r); err != nil {
			return err
		}
		open, err := query(ctx, tx, "approvals_of_session", approvalRow, idColumn(&id), make([]byte, 16), noLimit, int(tree.ApprovalOpen))
		if err != nil {
			return err
		}
		for _, a := range open {
			r.Approvals = append(r.Approvals, a.Approval)
		}
		r.Events, err = s.heads(ctx, tx, id)
		return err
	})
	return r, err
}

func plainInboxRow(e *tree.InboxEntry) []any { return inboxRow(new(tree.SessionID), e, new([]byte)) }

// deliveries reads what is offered and what is with workers.
func (s *Store) deliveries(ctx context.Context, tx reader, id tree.SessionID, r *tree.Rows) error {
	ready, err := query(ctx, tx, "session_ready", readyRow, idColumn(&id))
	if err != nil {
		return err
	}
	for _, row := range ready {
		r.Ready = append(r.Ready, row.Ready)
	}
	attempts, err := query(ctx, tx, "session_attempts", attemptRow, idColumn(&id))
	for _, row := range attempts {
		r.Attempts = append(r.Attempts, row.Attempt)
	}
	return err
}

// heads reads the whole log of a session.
func (s *Store) heads(ctx context.Context, tx reader, id tree.SessionID) ([]tree.EventHead, error) {
	rows, err := query(ctx, tx, "events", func(data *[]byte) []any { return []any{data} }, idColumn(&id), 0, noLimit)
	if err != nil {
		return nil, err
	}
	heads := make([]tree.EventHead, len(rows))
	for i, data := range rows {
		e, err := wire.DecodeEvent(data)
		if err != nil {
			return nil, err
		}
		if heads[i], err = head(e); err != nil {
			return nil, err
		}
	}
	return heads, nil
}

func head(e *pb.Event) (tree.EventHead, error) {
	task, err := tree.ParseID[tree.Task](e.GetTaskId())
	return tree.EventHead{
		Seq: e.GetSeq(), Task: task, Run: int(e.GetRun()),
		Started: e.GetStarted() != nil, Result: e.GetResult() != nil,
	}, err
}
