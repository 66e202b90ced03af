package worker

import (
	"context"
	"sync"
)

// Drain makes the worker take no more runs. Run returns when the current runs and background
// commands have ended.
func (w *Worker) Drain() {
	w.drainOnce.Do(func() {
		w.Logger.Info("draining: the worker claims no more runs", "busy", w.Busy())
		close(w.draining)
	})
}

func (w *Worker) isDraining() bool {
	select {
	case <-w.draining:
		return true
	default:
		return false
	}
}

// waitDrained waits for the last runs of all slots and for their background commands, unless ctx
// ends first.
func (w *Worker) waitDrained(ctx context.Context, slots *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		slots.Wait()
		w.commands.Wait()
	}()
	select {
	case <-done:
		w.Logger.InfoContext(ctx, "drained: all runs of the worker have ended")
	case <-ctx.Done():
	}
}
