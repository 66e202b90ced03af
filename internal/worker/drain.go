package worker

import (
	"context"
	"sync"
)

// Drain has the worker take no run any more. It finishes those that it has, and then Run
// returns.
func (w *Worker) Drain() {
	w.drainOnce.Do(func() {
		w.Logger.Info("draining: no run is taken any more", "busy", w.Busy())
		close(w.draining)
	})
}

// drains reports whether the worker takes no run any more.
func (w *Worker) isDraining() bool {
	select {
	case <-w.draining:
		return true
	default:
		return false
	}
}

// runOut waits for the last runs of slots that take no other, and for the commands that they
// have left running, unless ctx ends before.
func (w *Worker) waitDrained(ctx context.Context, slots *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		slots.Wait()
		w.commands.Wait()
	}()
	select {
	case <-done:
		w.Logger.InfoContext(ctx, "drained: nothing is left to do")
	case <-ctx.Done():
	}
}
