package worker

import (
	"context"
	"sync"
	"time"
)

// ackDelay is how long to wait for further hints before acknowledging: one message for many hints
// is cheaper for both sides.
const ackDelay = 5 * time.Millisecond

// ackQueue collects hints whose claims have been answered, until they are acknowledged in the
// dispatch stream. Slots do not wait for that. Hints that arrive meanwhile are acknowledged with
// the same message or the next.
type ackQueue struct {
	mu      sync.Mutex
	ids     []string
	pending chan struct{} // has one element if ids is not empty
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

// ackHints acknowledges hints until ctx ends, and then the remaining ones. If an acknowledgement
// fails, the hints are delivered again and their claims are refused.
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

// flushAcks acknowledges all collected hints. It takes at most redisTimeout.
func (w *Worker) flushAcks(ctx context.Context) {
	ids := w.acks.takeAll()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	if err := w.bus.Load().Done(ctx, w.Pool, ids...); err != nil {
		w.Logger.WarnContext(ctx, "acknowledging hints failed", "hints", len(ids), "error", err)
	}
}
