package main

import (
	"context"
	"sync"
)

// batches gathers tasks until somebody can do something with them.
type batches struct {
	mu    sync.Mutex
	tasks []uint64
	some  chan struct{} // holds a token if there are tasks
}

func newBatches() *batches { return &batches{some: make(chan struct{}, 1)} }

// add never blocks.
func (b *batches) add(tasks ...uint64) {
	b.mu.Lock()
	b.tasks = append(b.tasks, tasks...)
	b.mu.Unlock()
	select {
	case b.some <- struct{}{}:
	default:
	}
}

// drain hands over all that has gathered, again and again, until ctx is done.
func (b *batches) drain(ctx context.Context, use func([]uint64) error) error {
	for {
		select {
		case <-b.some:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b.mu.Lock()
		tasks := b.tasks
		b.tasks = nil
		b.mu.Unlock()
		if err := use(tasks); err != nil {
			return err
		}
	}
}
