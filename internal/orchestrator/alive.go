package orchestrator

import (
	"context"

	"google.golang.org/grpc/peer"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// meet learns from the first claim or reattachment whose stream it is, and where that
// worker can be asked whether it lives. The host is the one that the stream comes from,
// whatever the worker says; where that is not its own, nobody answers for it there and
// its runs wait for the grace.
func (l *slot) meet(req *pb.WorkRequest) {
	id, port := req.GetClaim().GetWorkerId(), req.GetClaim().GetAlivePort()
	if again := req.GetReattach(); again != nil {
		id, port = again.GetWorkerId(), again.GetAlivePort()
	}
	from, known := peer.FromContext(l.stream.Context())
	if port == 0 || !known {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.worker == nil && !l.over {
		l.worker = l.workers.Meet(id, from.Addr, port)
	}
}

// leave says that the stream is nobody's any more.
func (l *slot) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worker.Leave()
	l.worker = nil
}

// workerDied notes that the process of a worker is dead whose stream broke.
func (s *Service) workerDied(id string) {
	s.Logger.InfoContext(context.Background(), "a worker is dead; its runs do not wait for it", "worker_id", id)
	if s.measures != nil {
		s.measures.WorkerDied()
	}
}
