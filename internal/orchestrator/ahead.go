package orchestrator

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
)

// ahead holds the runs that count as announced since they became ready, until they
// are. What is lost with the process is announced again when its lease is over.
type ahead struct {
	mu    sync.Mutex
	hints []dispatch.Hint
	some  chan struct{} // holds one: there are some
}

func newAhead() *ahead { return &ahead{some: make(chan struct{}, 1)} }

// lookAgain is how long a replica may believe that nothing waits: what other replicas
// have left waiting it only sees when it looks.
const lookAgain = 50 * time.Millisecond

// lookForMore makes the announcer look after a claim, since the dispatch stream has room
// for one more, or after a run has made room for another one of its session: at once if
// something waits, otherwise when it has not looked for a while.
func (s *Service) lookForMore() {
	if s.Store.Behind() {
		s.lookForReady()
		return
	}
	poke(s.later)
}

// put takes in what has become ready, and reports whether any of it waits for its turn.
func (a *ahead) put(ready []store.Ready) (waiting bool) {
	a.mu.Lock()
	before := len(a.hints)
	for _, r := range ready {
		if !r.Ahead {
			waiting = true
			continue
		}
		a.hints = append(a.hints, dispatch.Hint{Session: r.Session, Task: r.Task, Epoch: r.Epoch})
	}
	more := len(a.hints) > before
	a.mu.Unlock()
	if more {
		poke(a.some)
	}
	return waiting
}

func (a *ahead) take() []dispatch.Hint {
	a.mu.Lock()
	defer a.mu.Unlock()
	hints := a.hints
	a.hints = nil
	return hints
}

// announceAhead puts such runs on the dispatch stream until ctx ends.
func (s *Service) announceAhead(ctx context.Context) error {
	for {
		select {
		case <-s.ahead.some:
		case <-ctx.Done():
			return nil
		}
		if err := s.Bus.Announce(ctx, s.Pool, s.ahead.take()); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "announcing failed", "error", err)
		}
	}
}
