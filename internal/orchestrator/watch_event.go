package orchestrator

import (
	"context"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// errDeleted ends a watch of a session that was deleted.
var errDeleted = tree.ErrNoSession.With("it was deleted")

// watchEvent is an event in the form that watchers get.
type watchEvent struct {
	seq     int64
	at      time.Time
	step    *wire.Step
	deleted bool // the event says that the session was deleted; it is the last one
	busy    bool // the event says that a run is RUNNING, or waits for a worker
}

// readLog reads up to watchBatch events after the event with the number after, or from the
// beginning if that is 0. It reads that event too, because it is missing if the session's rows are
// being removed. If an event is missing, it returns those before the gap, and errDeleted.
func (s *Service) readLog(ctx context.Context, id tree.SessionID, after int64) ([]watchEvent, error) {
	next := max(after, 1)
	rows, err := s.Store.Log(ctx, id, next-1, watchBatch+1-int(next-after))
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errDeleted
	}
	var found []watchEvent
	for _, data := range rows {
		e, err := wire.DecodeEvent(data)
		if err != nil {
			return found, err
		}
		if e.GetSeq() != next {
			return found, errDeleted
		}
		if next++; e.GetSeq() > after {
			found = append(found, newWatchEvent(e, data))
		}
	}
	return found, nil
}

// newWatchEvent encodes an event for sending.
func newWatchEvent(e *pb.Event, stored []byte) watchEvent {
	return watchEvent{
		seq: e.GetSeq(), at: e.GetTime().AsTime(), step: wire.EventStep(stored),
		deleted: e.GetSessionChanged().GetChange() == pb.SessionChange_SESSION_CHANGE_DELETED,
		busy:    e.GetReady() != nil || e.GetDispatched() != nil,
	}
}

// checkIdle returns the idle step if the session is idle and its last event is seq. more reports
// that there are events after seq.
func (s *Service) checkIdle(ctx context.Context, id tree.SessionID, seq int64) (idle *pb.Idle, more bool, err error) {
	quiet, at, root, err := s.Store.Idle(ctx, id)
	if err != nil {
		return nil, false, err
	}
	last := at.NextSeq - 1
	if quiet && last == seq {
		idle = &pb.Idle{Root: wire.Task(&root), LastSeq: last, Cause: idleCause(&at)}
	}
	return idle, last > seq, nil
}
