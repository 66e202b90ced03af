package orchestrator

import (
	"context"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// errDeleted ends a watch of a session that is no more.
var errDeleted = tree.ErrNoSession.With("it was deleted")

// watchEvent is an event as watchers are given it.
type watchEvent struct {
	seq     int64
	at      time.Time
	step    *wire.Step
	deleted bool // it says that the session was deleted: there is no other after it
	busy    bool // it says that a run is under way, or will be
}

// readLog reads the events after one that there is, or all if that is 0: watchBatch of
// them, or what there are. It reads that one again, since it is gone where rows are
// removed: with errDeleted it gives the events before the gap.
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

// newWatchEvent makes an event ready to be sent.
func newWatchEvent(e *pb.Event, stored []byte) watchEvent {
	return watchEvent{
		seq: e.GetSeq(), at: e.GetTime().AsTime(), step: wire.EventStep(stored),
		deleted: e.GetSessionChanged().GetChange() == pb.SessionChange_SESSION_CHANGE_DELETED,
		busy:    e.GetReady() != nil || e.GetDispatched() != nil,
	}
}

// checkIdle says whether the session is idle, if its last event is a certain one; more
// reports that there are events after that one.
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
