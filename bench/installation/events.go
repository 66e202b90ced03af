package installation

import (
	"context"
	"fmt"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Replay calls each with all events of an idle session.
func (i *Installation) Replay(ctx context.Context, session string, each func(*pb.Event)) error {
	return i.Follow(ctx, &pb.WatchSessionRequest{SessionId: session, UntilIdle: true}, func(e *pb.Event) bool {
		each(e)
		return true
	})
}

// Follow watches a session until each returns false or, if the request asks for it, until the
// session is idle.
func (i *Installation) Follow(ctx context.Context, req *pb.WatchSessionRequest, each func(*pb.Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := i.Sessions().WatchSession(ctx, req)
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	for {
		step, err := watch.Recv()
		switch {
		case err != nil:
			return fmt.Errorf("watching: %w", err)
		case step.GetIdle() != nil:
			return nil
		case step.GetEvent() == nil:
			continue
		}
		for _, e := range append([]*pb.Event{step.GetEvent()}, step.GetMore()...) {
			if !each(e) {
				return nil
			}
		}
	}
}
