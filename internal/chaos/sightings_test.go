package chaos_test

import (
	"sync"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// sightings is what clients have seen of the workers that runs go to.
type sightings struct {
	mu         sync.Mutex
	dispatched time.Time         // when a run went to a worker last
	moved      chan struct{}     // closed when that changes
	lasting    map[string]string // the workers of children that are at work for seconds, by task
}

func newSightings() *sightings {
	return &sightings{moved: make(chan struct{}), lasting: map[string]string{}}
}

func (s *sightings) add(shape string, e *pb.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shape == lasting && e.GetRun() > 0 {
		switch {
		case e.GetDispatched() != nil:
			s.lasting[e.GetTaskId()] = e.GetDispatched().GetWorkerId()
		case e.GetParked() != nil, e.GetReady() != nil, e.GetResult() != nil:
			delete(s.lasting, e.GetTaskId())
		}
	}
	if at := e.GetTime().AsTime(); e.GetDispatched() != nil && at.After(s.dispatched) {
		s.dispatched = at
		close(s.moved)
		s.moved = make(chan struct{})
	}
}

// last returns when a run went to a worker last, and a channel that is closed with the next one.
func (s *sightings) last() (time.Time, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dispatched, s.moved
}

// of returns the lasting tasks that a worker has.
func (s *sightings) of(is func(worker string) bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tasks []string
	for task, worker := range s.lasting {
		if is(worker) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// elsewhere reports whether another worker has one of the tasks.
func (s *sightings) elsewhere(tasks []string, is func(worker string) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, task := range tasks {
		if worker, has := s.lasting[task]; has && !is(worker) {
			return true
		}
	}
	return false
}
