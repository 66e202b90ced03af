package orchestrator

import (
	"context"
	"errors"
	"sync"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// outbox is what other replicas are still to be told. However much there is, it
// is told with one message at a time: what comes meanwhile goes with the next.
type outbox struct {
	mu      sync.Mutex
	waiting map[dispatch.Nudge]struct{}
	changed chan struct{} // holds one: something waits
}

func newOutbox() *outbox {
	return &outbox{waiting: map[dispatch.Nudge]struct{}{}, changed: make(chan struct{}, 1)}
}

// put queues what a commit has changed.
func (o *outbox) put(c store.Commit) {
	if len(c.Sessions)+len(c.Revoked)+len(c.Released) == 0 {
		return
	}
	o.mu.Lock()
	for _, touched := range c.Sessions {
		o.waiting[dispatch.Nudge{Session: touched.Session}] = struct{}{}
	}
	for _, r := range c.Revoked {
		o.waiting[dispatch.Nudge{Session: r.Session, Task: r.Task}] = struct{}{}
	}
	for _, r := range c.Released {
		o.waiting[dispatch.Nudge{Session: r.Session, Task: r.Task}] = struct{}{}
	}
	o.mu.Unlock()
	signal(o.changed)
}

// take empties the queue.
func (o *outbox) take() []dispatch.Nudge {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]dispatch.Nudge, 0, len(o.waiting))
	for n := range o.waiting {
		all = append(all, n)
	}
	clear(o.waiting)
	return all
}

// sendNudges tells other replicas what this one commits, until ctx ends. A nudge that
// is lost is made up for by their looking each second.
func (s *Service) sendNudges(ctx context.Context) error {
	for {
		select {
		case <-s.outbox.changed:
		case <-ctx.Done():
			return nil
		}
		if err := s.Bus.Nudge(ctx, s.Replica, s.outbox.take()...); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "nudging other replicas failed", "error", err)
		}
	}
}

// receiveNudges looks at what other replicas have committed, until ctx ends.
func (s *Service) receiveNudges(ctx context.Context) error {
	return s.Bus.Listen(ctx, s.Replica, func(n dispatch.Nudge) {
		switch {
		case n.Session.IsZero():
			s.hub.notifyAll()
		case n.Task.IsZero():
			s.hub.notify(n.Session)
		default:
			s.recheckLease(ctx, n)
		}
	}, s.relay.setInterest)
}

// recheckLease tells the stream of an attempt what another replica has done to it: ended it,
// or asked for its commands to go on in the background. A nudge may be old or forged:
// only the row counts.
func (s *Service) recheckLease(ctx context.Context, n dispatch.Nudge) {
	epoch, held := s.leases.latestEpoch(n.Task)
	if !held {
		return
	}
	t, err := s.Store.Task(ctx, n.Session, n.Task)
	switch {
	case errors.Is(err, tree.ErrNoTask):
	case err != nil:
		s.Logger.WarnContext(ctx, "looking at a nudged task failed", "task_id", n.Task, "error", err)
	case t.State == tree.StatePending && t.Epoch == epoch:
		s.leases.revoke(n.Session, n.Task, epoch-1) // a claim is on its way: under this epoch it was with nobody yet
	case t.State != tree.StateRunning || t.Epoch != epoch:
		s.leases.revoke(n.Session, n.Task, epoch)
	case t.Release > 0:
		s.leases.release(n.Task, epoch, t.Release)
	}
}
