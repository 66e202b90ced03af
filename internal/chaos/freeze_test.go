//go:build chaos

package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"
)

// freeze stops a worker for longer than anyone waits for it, and lets it go on. In
// half of the cases its streams break while it sleeps.
func freeze(ctx context.Context, c *cluster, rng *rand.Rand) error {
	n, err := hold(ctx, rng, c.workers)
	if err != nil {
		return err
	}
	defer n.held.Unlock()
	if err := n.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if rng.IntN(2) == 0 {
		for _, l := range n.links[1:] {
			l.Cut()
		}
	}
	pause(ctx, between(rng, 4*time.Second, 9*time.Second))
	return n.signal(syscall.SIGCONT)
}

// replacedWithin is how long it may take until another worker has a run of a frozen one, and
// somebody has seen that.
const replacedWithin = 20 * time.Second

// freezeUntilReplaced stops a worker until another one is seen to have one of its runs. Then both
// believe that they have it.
func freezeUntilReplaced(ctx context.Context, c *cluster, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeoutCause(ctx, replacedWithin, errNothingThere)
	defer cancel()
	n, tasks, err := c.holdBusy(ctx, rng)
	if err != nil {
		return err
	}
	defer n.held.Unlock()
	if err := n.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for _, l := range n.links[1:] {
		l.Cut()
	}
	for {
		_, moved := c.sightings.last()
		if c.sightings.elsewhere(tasks, n.isWorker) {
			pause(ctx, between(rng, 50*time.Millisecond, 500*time.Millisecond))
			return n.signal(syscall.SIGCONT)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return errors.Join(n.signal(syscall.SIGCONT), context.Cause(ctx))
		}
	}
}

// holdBusy takes a worker that nobody else is breaking and that has lasting tasks, with these.
func (c *cluster) holdBusy(ctx context.Context, rng *rand.Rand) (*node, []string, error) {
	for {
		_, moved := c.sightings.last()
		for _, i := range rng.Perm(len(c.workers)) {
			n := c.workers[i]
			if !n.held.TryLock() {
				continue
			}
			if tasks := c.sightings.of(n.isWorker); len(tasks) > 0 {
				return n, tasks, nil
			}
			n.held.Unlock()
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// last returns when a run went to a worker last, and a channel that is closed with the next one.
func (s *sightings) last() (time.Time, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dispatched, s.moved
}

// of returns the lasting tasks that a worker has.
func (s *sightings) of(is func(worker string) bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tasks []string
	for task, worker := range s.lasting {
		if is(worker) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// elsewhere reports whether another worker has one of the tasks.
func (s *sightings) elsewhere(tasks []string, is func(worker string) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, task := range tasks {
		if worker, has := s.lasting[task]; has && !is(worker) {
			return true
		}
	}
	return false
}
