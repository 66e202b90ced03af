package worker

import (
	"context"
	"sync"
	"time"
)

// gathering is how long further hints are waited for before some are taken off the
// dispatch stream: one message for many spares both sides most of the work.
const gathering = 5 * time.Millisecond

// finished holds the hints whose claims have been answered, until they are taken off the
// dispatch stream. Nobody waits for that: what comes meanwhile goes with the same
// message, or the next.
type finished struct {
	mu   sync.Mutex
	ids  []string
	some chan struct{} // holds one: there are some
}

func newFinished() *finished { return &finished{some: make(chan struct{}, 1)} }

func (f *finished) add(id string) {
	f.mu.Lock()
	f.ids = append(f.ids, id)
	f.mu.Unlock()
	select {
	case f.some <- struct{}{}:
	default:
	}
}

func (f *finished) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := f.ids
	f.ids = nil
	return ids
}

// finish takes such hints off the dispatch stream until ctx ends, and then those that there are.
// If that fails they come again and their claims are refused.
func (w *Worker) finish(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-w.finished.some:
			pause(ctx, gathering)
		case <-ctx.Done():
		}
		w.finishNow(ctx)
	}
	return nil
}

// finishNow takes no longer than Redis may take for one thing.
func (w *Worker) finishNow(ctx context.Context) {
	ids := w.finished.take()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisPatience)
	defer cancel()
	if err := w.bus.Load().Done(ctx, w.Pool, ids...); err != nil {
		w.Logger.WarnContext(ctx, "taking hints off the stream failed", "hints", len(ids), "error", err)
	}
}
