package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Watch says from where to watch, and how long.
type Watch struct {
	After     int64
	Deltas    bool
	UntilIdle bool
}

// watchBatch is how many events are read at once.
const watchBatch = 512

// WatchSession gives send the events of a session in order: what has happened,
// then what happens. It returns once the session is idle, if that was asked
// for, and otherwise only when ctx ends or send fails.
func (s *Service) WatchSession(ctx context.Context, tenant string, id tree.SessionID, w Watch, send func(*pb.WatchSessionResponse) error) (*pb.Idle, error) {
	join := s.hub.watch
	if w.Deltas {
		join = s.hub.watchDeltas
	}
	look, stop := join(id)
	defer stop()
	session, err := s.Store.Session(ctx, tenant, id)
	switch {
	case err != nil:
		return nil, err
	case w.After < 0 || w.After >= session.NextSeq:
		return nil, tree.ErrBeyondEnd.With("after_seq is %d, the last event %d", w.After, session.NextSeq-1)
	}
	for live := false; ; live = true {
		if err := s.catchUp(ctx, id, &w.After, live, send); err != nil {
			return nil, err
		}
		if w.UntilIdle {
			idle, at, root, err := s.Store.Idle(ctx, id)
			if err != nil {
				return nil, err
			}
			last := at.NextSeq - 1
			if idle && last == w.After {
				return &pb.Idle{Root: wire.Task(&root), LastSeq: last, Cause: idleCause(&at)}, nil
			}
			if last > w.After {
				continue
			}
		}
		if err := s.awaitNews(ctx, look, send); err != nil {
			return nil, err
		}
	}
}

// catchUp sends everything after a cursor and moves it; live is whether the watcher had
// seen all that there was.
func (s *Service) catchUp(ctx context.Context, id tree.SessionID, after *int64, live bool, send func(*pb.WatchSessionResponse) error) error {
	for {
		events, err := s.Store.Events(ctx, id, *after, watchBatch)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.GetSeq() != *after+1 {
				return tree.ErrNoSession.With("it was deleted") // and its first rows are gone
			}
			if err := send(&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: e}}); err != nil {
				return err
			}
			if e.GetSessionChanged().GetChange() == pb.SessionChange_SESSION_CHANGE_DELETED {
				return tree.ErrNoSession.With("it was deleted")
			}
			*after = e.GetSeq()
			if live {
				s.watched(e)
			}
		}
		if len(events) < watchBatch {
			return nil
		}
	}
}

// awaitNews waits until the session has changed and sends deltas meanwhile.
func (s *Service) awaitNews(ctx context.Context, look *watcher, send func(*pb.WatchSessionResponse) error) error {
	for {
		select {
		case <-look.changed:
			return nil
		case d := <-look.deltas:
			if err := send(&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: d}}); err != nil {
				return err
			}
		case <-s.stopping:
			return tree.ErrStopping
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
