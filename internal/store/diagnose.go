package store

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Rows reads all rows of a session that the rules of tree.Diagnose are about, in one read.
func (s *Store) Rows(ctx context.Context, id tree.SessionID) (*tree.SessionRows, error) {
	r := &tree.SessionRows{}
	var sessions []tree.Session
	var ready []Ready
	var attempts []Attempt
	var open []Approval
	var log []logRow
	session := idColumn(&id)
	err := s.scans.load(ctx,
		all(&sessions, "session", plainSessionRow, session),
		all(&r.Tasks, "tree", taskRow, session),
		all(&r.OpenCalls, "session_calls", plainCallRow, session, tree.CallClosed),
		all(&r.Runs, "session_runs", plainRunRow, session),
		all(&r.Inbox, "session_inbox", plainInboxRow, session),
		all(&r.Callbacks, "session_callbacks", plainCallbackRow, session),
		all(&ready, "session_ready", readyRow, session),
		all(&attempts, "session_attempts", attemptRow, session),
		all(&open, "approvals_of_session", approvalRow, session, make([]byte, 16), noLimit, int(tree.ApprovalOpen)),
		logAfter(&log, &id, 0, noLimit))
	switch {
	case err != nil:
		return nil, err
	case len(sessions) == 0:
		return nil, tree.ErrNoSession
	}
	r.Session = sessions[0]
	for _, row := range ready {
		r.Ready = append(r.Ready, row.Ready)
	}
	for _, row := range attempts {
		r.Attempts = append(r.Attempts, row.Attempt)
	}
	for _, row := range open {
		r.Approvals = append(r.Approvals, row.Approval)
	}
	events, err := eventsOf(log, 0)
	if err != nil {
		return nil, err
	}
	r.Events, err = heads(events)
	return r, err
}

func plainInboxRow(e *tree.InboxEntry) []any { return inboxRow(new(tree.SessionID), e, new([]byte)) }

// heads decodes the heads of events.
func heads(rows [][]byte) ([]tree.EventHead, error) {
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
