package worker

import (
	"context"
	"sync"
	"time"
)

// gathering is how long further hints are waited for before some are taken off the
// dispatch stream: one message for many spares both sides most of the work.
const ackDelay = 5 * time.Millisecond

// finished holds the hints whose claims have been answered, until they are taken off the
// dispatch stream. Nobody waits for that: what comes meanwhile goes with the same
// message, or the next.
type ackQueue struct {
	mu      sync.Mutex
	ids     []string
	pending chan struct{} // holds one: there are some
}

func newAckQueue() *ackQueue { return &ackQueue{pending: make(chan struct{}, 1)} }

func (f *ackQueue) add(id string) {
	f.mu.Lock()
	f.ids = append(f.ids, id)
	f.mu.Unlock()
	select {
	case f.pending <- struct{}{}:
	default:
	}
}

func (f *ackQueue) takeAll() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := f.ids
	f.ids = nil
	return ids
}

// finish takes such hints off the dispatch stream until ctx ends, and then those that there are.
// If that fails they come again and their claims are refused.
func (w *Worker) ackHints(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-w.acks.pending:
			pause(ctx, ackDelay)
		case <-ctx.Done():
		}
		w.flushAcks(ctx)
	}
	return nil
}

// finishNow takes no longer than Redis may take for one thing.
func (w *Worker) flushAcks(ctx context.Context) {
	ids := w.acks.takeAll()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	if err := w.bus.Load().Done(ctx, w.Pool, ids...); err != nil {
		w.Logger.WarnContext(ctx, "taking hints off the stream failed", "hints", len(ids), "error", err)
	}
}
