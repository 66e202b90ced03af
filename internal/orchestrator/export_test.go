package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// StepBytes is how many bytes a step of several events may have.
const StepBytes = maxStepBytes

// How many calls are made at once, and of them to one host.
const (
	CallbacksAtOnce = maxCallbacks
	CallbacksOfHost = maxCallbacksPerHost
)

// Tails counts the sessions whose tails are read.
func (s *Service) Tails() int {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	return len(s.tails.bySession)
}

// Watchers counts those who watch, or wait.
func (s *Service) Watchers() int { return s.hub.count() }

// FailTails ends all reading with an error.
func (s *Service) FailTails(err error) {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	for _, t := range s.tails.bySession {
		t.fail(err)
	}
}

// Poke makes everyone who looks at a session look again, as another replica's nudge does.
func (s *Service) Poke(id tree.SessionID) { s.hub.notify(id) }

// OpenStream counts a stream of a worker, until close is called.
func (s *Service) OpenStream(idle bool) (close func()) {
	s.slots.add()
	if !idle {
		s.slots.setIdle(false)
	}
	return func() { s.slots.remove(idle) }
}

// Claim counts a claim.
func (s *Service) Claim() { s.claimRate.add(s.Now()) }

// Purge removes rows of sessions that were deleted, as a sweep does.
func (s *Service) Purge(ctx context.Context) error { return s.purge(ctx) }

// StreamAtMost is how long the dispatch stream may be of which little is read.
const StreamAtMost = crowdedFactor * minAnnounced
