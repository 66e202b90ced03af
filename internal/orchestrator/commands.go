package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// BackgroundCommands lets a run continue whose calls run commands in the foreground: it asks the
// run's worker to move them to the background.
func (s *Service) BackgroundCommands(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	return s.updateTask(ctx, tenant, id, tree.BackgroundCommands{Task: task})
}

// resendReleases asks workers again to move commands to the background, in case they were not told.
func (s *Service) resendReleases(ctx context.Context) error {
	runs, err := s.Store.ReleasedTasks(ctx, s.Replica)
	for _, t := range runs {
		s.leases.release(t.ID, t.Epoch, t.Release)
	}
	return err
}

func backgroundCommands(message int) *pb.WorkResponse {
	return &pb.WorkResponse{Kind: &pb.WorkResponse_BackgroundCommands{
		BackgroundCommands: &pb.BackgroundCommands{Ordinal: int32(message)},
	}}
}
