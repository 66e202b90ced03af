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

// logged is an event as watchers are given it.
type logged struct {
	seq     int64
	at      time.Time
	step    *wire.Step
	deleted bool // it says that the session was deleted: there is no other after it
	busy    bool // it says that a run is under way, or will be
}

// readLog reads events after a number, all that there are if they are fewer than
// watchBatch. With errDeleted they are those before a gap, as there is one while rows
// are removed, or promised says that there have been some and there are none.
func (s *Service) readLog(ctx context.Context, id tree.SessionID, after int64, promised bool) ([]logged, error) {
	rows, err := s.Store.Log(ctx, id, after, watchBatch)
	if err != nil {
		return nil, err
	}
	if promised && len(rows) == 0 {
		return nil, errDeleted
	}
	found := make([]logged, 0, len(rows))
	for _, data := range rows {
		e, err := wire.DecodeEvent(data)
		if err != nil {
			return found, err
		}
		if after++; e.GetSeq() != after {
			return found, errDeleted
		}
		found = append(found, logged{
			seq: e.GetSeq(), at: e.GetTime().AsTime(), step: wire.EventStep(data),
			deleted: e.GetSessionChanged().GetChange() == pb.SessionChange_SESSION_CHANGE_DELETED,
			busy:    e.GetReady() != nil || e.GetDispatched() != nil,
		})
	}
	return found, nil
}

// lookIdle says whether the session is idle, if its last event is a certain one; more
// reports that there are events after that one.
func (s *Service) lookIdle(ctx context.Context, id tree.SessionID, seq int64) (idle *pb.Idle, more bool, err error) {
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
