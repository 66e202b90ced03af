package worker

import (
	"context"
	"fmt"
	"sync"
)

// installation is the installation whose orchestrator welcomed a slot last. It changes when an
// orchestrator comes back with another database.
type installation struct {
	mu      sync.Mutex
	id      string        // empty: no welcome yet
	changed chan struct{} // closed when the installation changes; nil: nobody waits
}

// set records the installation of an orchestrator that welcomed a slot.
func (i *installation) set(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.id == id {
		return
	}
	i.id = id
	if i.changed != nil {
		close(i.changed)
		i.changed = nil
	}
}

// current returns the installation, and a channel that is closed when it changes.
func (i *installation) current() (id string, another <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.changed == nil {
		i.changed = make(chan struct{})
	}
	return i.id, i.changed
}

// followInstallation pulls from the dispatch stream of the current installation until ctx ends,
// and switches when the installation changes.
func (w *Worker) followInstallation(ctx, workCtx context.Context) error {
	for ctx.Err() == nil {
		id, another := w.installation.current()
		here, leave := cancelWhenClosed(ctx, another)
		if id == "" {
			<-here.Done()
		} else if err := w.joinInstallation(ctx, id); err != nil {
			leave()
			return err
		} else {
			w.pullHints(here, workCtx)
		}
		leave()
	}
	return nil
}

// joinInstallation switches to the dispatch stream of an installation. Hints that were read from
// the previous one may still be claimed; those claims are refused.
func (w *Worker) joinInstallation(ctx context.Context, id string) error {
	bus, err := w.Bus(id)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if w.bus.Load() != nil {
		w.Logger.WarnContext(ctx, "the orchestrator serves another installation than before; the worker claims the runs of the new one from now on", "installation", id)
		w.leaveGroup(ctx)
	}
	w.bus.Store(bus)
	return nil
}

// cancelWhenClosed returns a context that ends when closed is closed, or with ctx.
func cancelWhenClosed(ctx context.Context, closed <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-closed:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
