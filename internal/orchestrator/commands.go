package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// BackgroundCommands lets a run go on whose calls run commands in the foreground: its
// worker is asked to put them into the background.
func (s *Service) BackgroundCommands(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	session, err := s.Store.Session(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if task.IsZero() {
		task = session.Root
	}
	if _, err := s.Store.Update(ctx, id, tree.BackgroundCommands{Task: task}); err != nil {
		return nil, err
	}
	return s.Store.Task(ctx, id, task)
}

// release asks the workers again that have runs whose commands are to go on in the
// background, in case they were not told.
func (s *Service) release(ctx context.Context) error {
	runs, err := s.Store.Released(ctx, s.Replica)
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

// uncount says that the stream is none of a slot, or is none any more: one that a
// command is on carries no run of an agent.
func (l *slot) uncount() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counted {
		l.counted = false
		l.leases.close(l.lease == nil)
	}
}

// put puts an attempt on the stream, or takes off what is there. It needs the slot's lock.
func (l *slot) put(next *lease) {
	if had := l.lease != nil; l.counted && had != (next != nil) {
		l.leases.freed(had)
	}
	l.lease = next
}
