package own

import (
	"context"
	"fmt"

	"github.com/coppice-run/coppice/bench/installation"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// replay gives all events of a session that is at rest.
func replay(ctx context.Context, i *installation.Installation, session string, each func(*pb.Event)) error {
	return follow(ctx, i, &pb.WatchSessionRequest{SessionId: session, UntilIdle: true}, func(e *pb.Event) bool {
		each(e)
		return true
	})
}

// follow watches a session until it is idle, if the request says so, or each returns
// false.
func follow(ctx context.Context, i *installation.Installation, req *pb.WatchSessionRequest, each func(*pb.Event) bool) error {
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
