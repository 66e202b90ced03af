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
