package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Watch says which part of a session's events to watch.
type Watch struct {
	After         int64
	Deltas        bool
	UntilIdle     bool
	SeveralEvents bool // a step may hold several events

	// OnEmptyStart is called, if it is not nil, once all past events are sent, if there were none.
	// The first event may come much later.
	OnEmptyStart func() error
}

// watchBatch is how many events are read from the store at once, and tailBatch how many from a
// tail.
const (
	watchBatch = 512
	tailBatch  = 32
)

// maxStepBytes bounds a step that holds several events.
const maxStepBytes = 64 << 10

// deltaObserver receives text of a session while it is written.
type deltaObserver struct {
	queue chan *wire.Step // nil if the watcher does not want text
}

// deltaBuffer is how many pieces of text a slow watcher may be behind before it loses some. They
// are a preview; the stored message is never lost.
const deltaBuffer = 256

func newDeltaObserver(wanted bool) *deltaObserver {
	v := &deltaObserver{}
	if wanted {
		v.queue = make(chan *wire.Step, deltaBuffer)
	}
	return v
}

func (*deltaObserver) onCommit(store.SessionUpdate) {}
func (*deltaObserver) onMayHaveChanged()            {}

// watch is one watch of a session.
type watch struct {
	svc     *Service
	id      tree.SessionID
	several bool
	last    int64 // sequence number of the last event sent
	send    func(*wire.Step) error
	steps   []*wire.Step // of the events that are sent together
}

// WatchSession passes the events of a session to send, in order: first past events, then new ones.
// With UntilIdle it returns once the session is idle. Otherwise it returns only when the session is
// deleted, the replica stops, ctx ends or send fails.
func (s *Service) WatchSession(ctx context.Context, tenant string, id tree.SessionID, w Watch, send func(*wire.Step) error) (*pb.Idle, error) {
	deltas := newDeltaObserver(w.Deltas)
	defer s.hub.subscribe(id, deltas)()
	session, err := s.Store.Session(ctx, tenant, id)
	switch {
	case err != nil:
		return nil, err
	case w.After < 0:
		return nil, tree.ErrBadInput.With("after_seq is %d, must be 0 or more", w.After)
	case w.After >= session.NextSeq:
		return nil, tree.ErrBeyondEnd.With("after_seq is %d, but the last event is %d", w.After, session.NextSeq-1)
	}
	if w.Deltas && !s.Store.Exclusive() {
		defer s.interests.join(id)()
	}
	v := &watch{svc: s, id: id, several: w.SeveralEvents, last: w.After, send: send}
	for more := true; more; {
		if err := v.catchUp(ctx, false); err != nil {
			return nil, err
		}
		if !w.UntilIdle {
			break
		}
		var idle *pb.Idle
		if idle, more, err = s.checkIdle(ctx, id, v.last); err != nil || idle != nil {
			return idle, err
		}
	}
	if w.OnEmptyStart != nil && v.last == w.After {
		if err := w.OnEmptyStart(); err != nil {
			return nil, err
		}
	}
	return v.follow(ctx, deltas, w.UntilIdle)
}

// catchUp sends all events after the last one from the store. live says that the watcher had seen
// all events before.
func (v *watch) catchUp(ctx context.Context, live bool) error {
	for {
		events, err := v.svc.readLog(ctx, v.id, v.last)
		if err := v.sendEvents(events, live); err != nil {
			return err
		}
		if err != nil || len(events) < watchBatch {
			return err
		}
	}
}

func (v *watch) sendEvents(events []watchEvent, live bool) error {
	for len(events) > 0 {
		next := events[:v.nextBatch(events)]
		events = events[len(next):]
		err := v.send(wire.JoinSteps(v.steps))
		clear(v.steps) // don't keep them alive while the watch waits
		if err != nil {
			return err
		}
		for i := range next {
			if next[i].deleted {
				return errDeleted
			}
			v.last = next[i].seq
			if live {
				v.svc.recordWatchLag(&next[i])
			}
		}
	}
	return nil
}

// nextBatch collects the steps of the events to send together, and returns their number.
func (v *watch) nextBatch(events []watchEvent) int {
	v.steps = v.steps[:0]
	bytes := 0
	for i := range events {
		bytes += events[i].step.Len()
		if i > 0 && (!v.several || bytes > maxStepBytes) {
			break
		}
		v.steps = append(v.steps, events[i].step)
	}
	return len(v.steps)
}

// follow sends new events, once past events are sent.
func (v *watch) follow(ctx context.Context, deltas *deltaObserver, untilIdle bool) (*pb.Idle, error) {
	t, leave := v.svc.joinTail(v.id, untilIdle)
	defer leave()
	room := make([]watchEvent, tailBatch)
	for {
		view, err := t.after(v.last, room)
		if err != nil {
			return nil, err
		}
		switch {
		case view.behind:
			err = v.catchUp(ctx, true)
		case untilIdle && view.idle != nil:
			return view.idle, nil
		default:
			err = v.sendEvents(view.events, true)
			clear(view.events) // don't keep them alive while the watch waits
		}
		if err == nil {
			err = v.awaitChange(ctx, view.changed, deltas)
		}
		if err != nil {
			return nil, err
		}
	}
}

// awaitChange waits until the tail has changed, and sends deltas meanwhile. Deltas that came before
// the change are sent before it returns.
func (v *watch) awaitChange(ctx context.Context, changed chan struct{}, deltas *deltaObserver) error {
	for {
		select {
		case <-changed:
			return v.drainDeltas(deltas)
		case d := <-deltas.queue:
			if err := v.send(d); err != nil {
				return err
			}
		case <-v.svc.stopping:
			return tree.ErrStopping
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drainDeltas sends the deltas that are waiting.
func (v *watch) drainDeltas(deltas *deltaObserver) error {
	for range len(deltas.queue) {
		if err := v.send(<-deltas.queue); err != nil {
			return err
		}
	}
	return nil
}
