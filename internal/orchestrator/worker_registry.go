package orchestrator

import (
	"context"
	"strings"
	"sync"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// workerRegistry maps the streams of this replica to their workers.
type workerRegistry struct {
	mu      sync.Mutex
	workers map[string]*registeredWorker
	streams map[*slot]*registeredWorker // nil: the worker is not known yet
}

// registeredWorker is a worker that has streams here.
type registeredWorker struct {
	store.Worker
	streams map[*slot]bool // the value says whether drain was sent over the stream
}

func newWorkerRegistry() *workerRegistry {
	return &workerRegistry{workers: map[string]*registeredWorker{}, streams: map[*slot]*registeredWorker{}}
}

// addStream adds a stream whose worker is not known yet.
func (r *workerRegistry) addStream(l *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams[l] = nil
}

// setWorker sets the worker of a stream. It has an effect once, and only before removeStream.
func (r *workerRegistry) setWorker(l *slot, hello *pb.Hello) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := hello.GetWorkerId()
	known, open := r.streams[l]
	if id == "" || isUnlistable(id+hello.GetPool()+hello.GetVersion()) || !open || known != nil {
		return
	}
	w := r.workers[id]
	if w == nil {
		w = &registeredWorker{streams: map[*slot]bool{}}
		r.workers[id] = w
	}
	r.streams[l] = w
	w.streams[l] = false
	began := hello.GetStartTime().AsTime().Truncate(time.Microsecond) // as precise as it is stored
	w.Worker = store.Worker{
		ID: id, Pool: hello.GetPool(), Slots: int(hello.GetSlots()), Version: hello.GetVersion(), Started: began,
		Draining: w.Draining && w.Started.Equal(began),
	}
}

// setDraining records that the worker of a stream drains by itself.
func (r *workerRegistry) setDraining(l *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.streams[l]; w != nil {
		w.Draining = true
	}
}

// maxWorkerInfoBytes bounds what a worker says about itself.
const maxWorkerInfoBytes = 1000

// isUnlistable reports whether what a worker says about itself can't be listed. Such a worker still
// gets runs.
func isUnlistable(info string) bool {
	return len(info) > maxWorkerInfoBytes || strings.ContainsRune(info, 0)
}

// removeStream removes a stream, and its worker with the last one.
func (r *workerRegistry) removeStream(l *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.streams[l]
	delete(r.streams, l)
	if w == nil {
		return
	}
	delete(w.streams, l)
	if len(w.streams) == 0 {
		delete(r.workers, w.ID)
	}
}

// servesPool reports whether the worker of a stream takes runs of a pool.
func (r *workerRegistry) servesPool(l *slot, pool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.streams[l]
	return w != nil && w.Pool == pool
}

// all returns the workers by id.
func (r *workerRegistry) all() map[string]store.Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	workers := make(map[string]store.Worker, len(r.workers))
	for id, w := range r.workers {
		workers[id] = w.Worker
	}
	return workers
}

// drain tells a worker to take no more runs, once over each stream that it has here, because any
// one of them may be about to break.
func (r *workerRegistry) drain(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[id]
	if w == nil {
		return
	}
	for l, sent := range w.streams {
		if !sent {
			w.streams[l] = true
			signal(l.drains)
		}
	}
}

// syncWorkers makes the stored workers of this replica match the registry, also in whether they
// drain: a worker may have been told by another replica, or may have begun by itself.
func (s *Service) syncWorkers(ctx context.Context) error {
	stored, err := s.Store.WorkersOf(ctx, s.Replica)
	if err != nil {
		return err
	}
	there := s.registry.all()
	var left []string
	for _, was := range stored {
		is, here := there[was.ID]
		again := !is.Started.Equal(was.Started)
		switch {
		case !here:
			left = append(left, was.ID)
		case again:
		case was.Draining:
			s.registry.drain(was.ID)
		case is.Draining:
			if err := s.Store.Drain(ctx, is); err != nil {
				return err
			}
		}
		if here && !again && is.Pool == was.Pool && is.Slots == was.Slots && is.Version == was.Version {
			delete(there, was.ID)
		}
	}
	if len(there) == 0 && len(left) == 0 {
		return nil
	}
	var come []store.Worker
	for _, w := range there {
		come = append(come, w)
	}
	return s.Store.SaveWorkers(ctx, s.Replica, come, left)
}

// Workers lists the workers of all replicas that are alive.
func (s *Service) Workers(ctx context.Context) ([]store.PresentWorker, error) {
	return s.Store.Workers(ctx, s.replicaTimeout())
}

// Drain makes a worker take no more runs.
func (s *Service) Drain(ctx context.Context, id string) error {
	if id == "" {
		return tree.ErrBadInput.With("a worker is required")
	}
	workers, err := s.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.ID != id {
			continue
		}
		if err := s.Store.Drain(ctx, w.Worker); err != nil {
			return err
		}
		s.registry.drain(id) // other replicas do the same with their next sweep
		return nil
	}
	return tree.ErrNoWorker
}

// Stats is the load and the capacity of the installation.
type Stats struct {
	store.Capacity
	store.Work
	Workers int
	Pool    string // the pool whose workers get this replica's runs
}

// Stats returns the load and the capacity of the installation.
func (s *Service) Stats(ctx context.Context) (*Stats, error) {
	workers, err := s.Workers(ctx)
	if err != nil {
		return nil, err
	}
	there, err := s.Store.Capacity(ctx, s.replicaTimeout())
	if err != nil {
		return nil, err
	}
	work, err := s.Store.Work(ctx)
	if err != nil {
		return nil, err
	}
	return &Stats{*there, *work, len(workers), s.Pool}, nil
}
