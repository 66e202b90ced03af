package orchestrator

import (
	"cmp"
	"context"

	"google.golang.org/grpc/peer"

	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// identifyWorker learns from the first claim, offer to stand by or reattachment of a stream which
// worker it belongs to, and where to check whether that worker is alive. The host is the one that
// the stream comes from, whatever the worker says. If that is not the worker's own host, the check
// gets no answer, and its runs wait for the grace.
func (l *slot) identifyWorker(req *pb.WorkRequest) {
	claim := cmp.Or(req.GetClaim(), req.GetStandBy())
	id, port := claim.GetWorkerId(), claim.GetAlivePort()
	if reattach := req.GetReattach(); reattach != nil {
		id, port = reattach.GetWorkerId(), reattach.GetAlivePort()
	}
	from, known := peer.FromContext(l.stream.Context())
	if port == 0 || !known {
		return
	}
	l.state.setWorker(l.svc.prober, id, from.Addr, port)
}

// Bounds of what is recovered at once from dead workers. The sweep finds the rest.
const (
	maxDeadQueued     = 64    // workers
	maxHintsRecovered = 1_000 // of each worker
)

// workerDied records that the process of a worker whose stream broke is dead.
func (s *Service) workerDied(id string) {
	s.Logger.InfoContext(context.Background(), "a worker is dead; its runs are redelivered without waiting for it", "worker_id", id)
	if s.metrics != nil {
		s.metrics.WorkerDied()
	}
	select {
	case s.deadWorkers <- id:
	default:
	}
}

// recoverHints announces runs again whose hints dead workers have read and not claimed, until ctx
// ends.
func (s *Service) recoverHints(ctx context.Context) error {
	for {
		select {
		case id := <-s.deadWorkers:
			if err := s.recoverHintsOf(ctx, id); err != nil && ctx.Err() == nil {
				// Their announcements expire.
				s.Logger.WarnContext(ctx, "recovering the hints of a dead worker failed", "worker_id", id, "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// recoverHintsOf announces the runs again whose hints a dead worker has read, and removes its
// consumer. Runs that the worker has claimed are not due any more and are not affected.
func (s *Service) recoverHintsOf(ctx context.Context, worker string) error {
	left, err := s.Bus.Unfinished(ctx, s.Pool, worker, maxHintsRecovered)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		s.Logger.InfoContext(ctx, "a dead worker had read hints without claiming them; their runs are announced again", "worker_id", worker, "hints", len(left))
	}
	if err := s.reannounce(ctx, left); err != nil {
		return err
	}
	return s.Bus.Forget(ctx, s.Pool, worker)
}

// reannounce announces the runs of hints again that no worker will claim.
func (s *Service) reannounce(ctx context.Context, left []dispatch.Delivery) error {
	var done []string
	for _, d := range left {
		if err := s.releaseReady(ctx, d.Hint.Session, d.Hint.Task, d.Hint.Epoch); err != nil {
			return err
		}
		done = append(done, d.ID)
	}
	return s.Bus.Done(ctx, s.Pool, done...)
}
