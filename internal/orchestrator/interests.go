package orchestrator

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/excerpt"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// An interest is sent at once, and again each interestInterval, because the message may have been
// missed. An interest that is not renewed within interestTTL expires: its replica may be dead.
const (
	interestInterval = 2 * time.Second
	interestTTL      = 3 * interestInterval
)

// textInterests holds the sessions whose text is watched here while it is written.
type textInterests struct {
	mu       sync.Mutex
	watchers map[tree.SessionID]int
	unsent   map[tree.SessionID]struct{} // sessions whose interest has changed since other replicas were told
	changed  chan struct{}               // holds one: unsent is not empty
}

func newTextInterests() *textInterests {
	return &textInterests{watchers: map[tree.SessionID]int{}, unsent: map[tree.SessionID]struct{}{}, changed: make(chan struct{}, 1)}
}

// join adds a watcher of a session's text, until leave is called.
func (w *textInterests) join(id tree.SessionID) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers[id]++; w.watchers[id] == 1 {
		w.toggle(id)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.watchers[id]--; w.watchers[id] == 0 {
			delete(w.watchers, id)
			w.toggle(id)
		}
	}
}

// toggle records that the interest in a session begins or ends. Two changes before other replicas
// are told cancel out. It requires the lock.
func (w *textInterests) toggle(id tree.SessionID) {
	if _, turned := w.unsent[id]; turned {
		delete(w.unsent, id)
		return
	}
	w.unsent[id] = struct{}{}
	signal(w.changed)
}

// take returns the changed interests, or all of them.
func (w *textInterests) take(all bool) []dispatch.Interest {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all {
		for id := range w.watchers {
			w.unsent[id] = struct{}{}
		}
	}
	out := make([]dispatch.Interest, 0, len(w.unsent))
	for id := range w.unsent {
		out = append(out, dispatch.Interest{Session: id, Over: w.watchers[id] == 0})
	}
	clear(w.unsent)
	return out
}

// isEmpty reports whether no text is watched here and nothing is left to send.
func (w *textInterests) isEmpty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watchers)+len(w.unsent) == 0
}

// receiveText passes text from other replicas to watchers here, until ctx ends. While no text is
// watched here, it does not subscribe.
func (s *Service) receiveText(ctx context.Context) error {
	for {
		select {
		case <-s.interests.changed:
		case <-ctx.Done():
			return nil
		}
		if s.interests.isEmpty() {
			continue
		}
		if err := s.receiveWhileWanted(ctx); err != nil {
			return err
		}
	}
}

func (s *Service) receiveWhileWanted(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hearing := make(chan struct{}, 1)
	var g errgroup.Group
	g.Go(func() error {
		defer stop()
		return s.Bus.ReceiveText(ctx, s.Replica, func() { signal(hearing) }, s.deliverPiece)
	})
	g.Go(func() error {
		defer stop()
		s.sendInterests(ctx, hearing)
		return nil
	})
	return g.Wait()
}

// sendInterests tells other replicas which text to send here, as soon as this replica has
// subscribed to it, until no text is watched.
func (s *Service) sendInterests(ctx context.Context, hearing <-chan struct{}) {
	tick := time.NewTicker(interestInterval)
	defer tick.Stop()
	for {
		all := true
		select {
		case <-hearing:
		case <-tick.C:
			if s.interests.isEmpty() {
				return
			}
		case <-s.interests.changed:
			all = false
		case <-ctx.Done():
			return
		}
		if err := s.Bus.SendInterests(ctx, s.Replica, s.interests.take(all)...); err != nil && ctx.Err() == nil {
			s.Bus.LogFailure(ctx, "requesting text from other replicas failed", err)
		}
	}
}

// publishDelta passes text to watchers here and at other replicas. It splits the text into pieces
// that are small enough to buffer many of them for a slow watcher.
func (l *slot) publishDelta(d *pb.TextDelta) {
	lease := l.state.currentLease()
	if lease == nil {
		return
	}
	for text, restart := d.GetText(), d.GetRestart(); text != ""; restart = false {
		piece := excerpt.Head(text, dispatch.MaxPieceBytes)
		text = text[len(piece):]
		p := dispatch.Piece{
			Session: lease.session, Task: lease.task, Run: lease.run, Text: piece, Thinking: d.GetThinking(), Restart: restart,
		}
		l.svc.deliverPiece(p)
		l.svc.relay.put(p)
	}
}

// deliverPiece passes a piece of text to watchers here.
func (s *Service) deliverPiece(p dispatch.Piece) { s.hub.sendDelta(p.Session, deltaOf(p)) }

func deltaOf(p dispatch.Piece) *pb.Delta {
	return &pb.Delta{TaskId: p.Task.String(), Run: int32(p.Run), Text: p.Text, Thinking: p.Thinking, Restart: p.Restart}
}
