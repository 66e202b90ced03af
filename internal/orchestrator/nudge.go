package orchestrator

import (
	"context"
	"errors"
	"sync"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// outbox collects what other replicas are still to be told. One message is sent at a time; what is
// added meanwhile goes with the next one.
type outbox struct {
	mu      sync.Mutex
	waiting map[dispatch.Nudge]struct{}
	changed chan struct{} // holds one: the outbox is not empty
}

func newOutbox() *outbox {
	return &outbox{waiting: map[dispatch.Nudge]struct{}{}, changed: make(chan struct{}, 1)}
}

// put adds what a commit has changed. It never blocks.
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

// take empties the outbox.
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

// sendNudges tells other replicas what this one commits, until ctx ends. A lost nudge only causes
// delay, because replicas also look once a second.
func (s *Service) sendNudges(ctx context.Context) error {
	for {
		select {
		case <-s.outbox.changed:
		case <-ctx.Done():
			return nil
		}
		if err := s.Bus.Nudge(ctx, s.Replica, s.outbox.take()...); err != nil && ctx.Err() == nil {
			s.Bus.LogFailure(ctx, "nudging other replicas failed", err)
		}
	}
}

// receiveNudges handles what other replicas have committed, until ctx ends.
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

// recheckLease tells the stream of an attempt that another replica has ended the attempt, or has
// asked for its commands to continue in the background. A nudge may be old or forged, so only the
// row in the database counts.
func (s *Service) recheckLease(ctx context.Context, n dispatch.Nudge) {
	epoch, held := s.leases.latestEpoch(n.Task)
	if !held {
		return
	}
	t, err := s.Store.Task(ctx, n.Session, n.Task)
	switch {
	case errors.Is(err, tree.ErrNoTask):
	case err != nil:
		s.Logger.WarnContext(ctx, "reading the task of a nudge failed", "task_id", n.Task, "error", err)
	case t.State == tree.StatePending && t.Epoch == epoch:
		s.leases.revoke(n.Session, n.Task, epoch-1) // a claim is in progress: no worker has had the run under this epoch yet
	case t.State != tree.StateRunning || t.Epoch != epoch:
		s.leases.revoke(n.Session, n.Task, epoch)
	case t.Release > 0:
		s.leases.release(n.Task, epoch, t.Release)
	}
}
