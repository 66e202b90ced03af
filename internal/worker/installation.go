package worker

import (
	"context"
	"fmt"
	"sync"
)

// installation is the one whose orchestrator has last welcomed a slot. It is another one where
// an orchestrator has come back with another database.
type installation struct {
	mu      sync.Mutex
	id      string        // empty: there was no welcome yet
	changed chan struct{} // closed when it is another one; nil: nobody waits for that
}

// welcomed notes whose orchestrator has welcomed a slot.
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

// now gives it, and what is closed when it is another one.
func (i *installation) current() (id string, another <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.changed == nil {
		i.changed = make(chan struct{})
	}
	return i.id, i.changed
}

// follow pulls from the dispatch stream of the installation until ctx ends, and from that of
// another one once it is that.
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

// join makes an installation the one whose dispatch stream is read. What was read of another one
// and is claimed all the same is refused.
func (w *Worker) joinInstallation(ctx context.Context, id string) error {
	bus, err := w.Bus(id)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if w.bus.Load() != nil {
		w.Logger.WarnContext(ctx, "another installation is served than before; its runs are taken from now on", "installation", id)
		w.leaveGroup(ctx)
	}
	w.bus.Store(bus)
	return nil
}

// until gives a context that ends when something is closed, or with ctx.
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
