package orchestrator

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// StepBytes is the maximum size of a step with several events.
const StepBytes = maxStepBytes

// How many callbacks run at once, and how many to one host.
const (
	CallbacksAtOnce = maxCallbacks
	CallbacksOfHost = maxCallbacksPerHost
)

// Tails returns the number of tails.
func (s *Service) Tails() int {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	return len(s.tails.bySession)
}

// Watchers returns the number of watchers and waiters.
func (s *Service) Watchers() int { return s.hub.countObservers() }

// FailTails makes all tails fail.
func (s *Service) FailTails(err error) {
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	for _, t := range s.tails.bySession {
		t.fail(err)
	}
}

// Poke makes the observers of a session look again, as a nudge of another replica does.
func (s *Service) Poke(id tree.SessionID) { s.hub.notify(id) }

// OpenStream counts a stream of a slot, until close is called.
func (s *Service) OpenStream(idle bool) (close func()) {
	s.slots.add()
	if !idle {
		s.slots.setIdle(false)
	}
	return func() { s.slots.remove(idle) }
}

// Claim counts a claim.
func (s *Service) Claim() { s.claimRate.add(s.Now()) }

// CachedPrompts returns the size of the prompts of all cached definitions, and its limit.
func (s *Service) CachedPrompts() (bytes, limit int) {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	for _, def := range s.agents.definitions {
		bytes += len(def.Prompt)
	}
	return bytes, maxCachedDefinitionBytes
}

// Purge removes rows of deleted sessions, as a sweep does.
func (s *Service) Purge(ctx context.Context) error { return s.purge(ctx) }

// StreamAtMost is the length of the dispatch stream from which on it is crowded when few runs are
// claimed.
const StreamAtMost = crowdedFactor * minAnnounced
