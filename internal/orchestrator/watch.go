package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Watch says from where to watch, and how long.
type Watch struct {
	After     int64
	Deltas    bool
	UntilIdle bool
	Several   bool // a step may have several events

	// Stands is called, if it is not nil, once all that had happened was sent and that was
	// nothing: who watches may wait for long until something is.
	Stands func() error
}

// watchBatch is how many events are read from the store at once, and watchGlimpse how
// many from the tail.
const (
	watchBatch   = 512
	watchGlimpse = 32
)

// stepBytes is how many bytes the events of a step have together, at most, if it has
// several.
const stepBytes = 64 << 10

// viewer is one who watches a session, whom the tail tells what is committed.
type viewer struct {
	deltas chan *wire.Step // nil unless they want to see text as it is written
}

// deltaRoom is how many pieces of text a slow watcher may be behind before it
// loses some; they are a preview, the message itself is never lost.
const deltaRoom = 256

func newViewer(deltas bool) *viewer {
	v := &viewer{}
	if deltas {
		v.deltas = make(chan *wire.Step, deltaRoom)
	}
	return v
}

func (*viewer) committed(store.SessionUpdate) {}
func (*viewer) unsure()                       {}

// watching is one watch of a session.
type watching struct {
	svc     *Service
	id      tree.SessionID
	several bool
	last    int64 // the last event that was sent
	send    func(*wire.Step) error
	steps   []*wire.Step // of the events that are sent together
}

// WatchSession gives send the events of a session in order: what has happened,
// then what happens. It returns once the session is idle, if that was asked
// for, and otherwise only when ctx ends or send fails.
func (s *Service) WatchSession(ctx context.Context, tenant string, id tree.SessionID, w Watch, send func(*wire.Step) error) (*pb.Idle, error) {
	look := newViewer(w.Deltas)
	defer s.hub.join(id, look)()
	session, err := s.Store.Session(ctx, tenant, id)
	switch {
	case err != nil:
		return nil, err
	case w.After < 0:
		return nil, tree.ErrBadInput.With("after_seq is %d, must be 0 or more", w.After)
	case w.After >= session.NextSeq:
		return nil, tree.ErrBeyondEnd.With("after_seq is %d, the last event %d", w.After, session.NextSeq-1)
	}
	if w.Deltas && !s.Store.Exclusive() {
		defer s.wishes.join(id)()
	}
	v := &watching{svc: s, id: id, several: w.Several, last: w.After, send: send}
	for more := true; more; {
		if err := v.catchUp(ctx, false); err != nil {
			return nil, err
		}
		if !w.UntilIdle {
			break
		}
		var idle *pb.Idle
		if idle, more, err = s.lookIdle(ctx, id, v.last); err != nil || idle != nil {
			return idle, err
		}
	}
	if w.Stands != nil && v.last == w.After {
		if err := w.Stands(); err != nil {
			return nil, err
		}
	}
	return v.goOn(ctx, look, w.UntilIdle)
}

// catchUp sends everything after the last event from the store; live is whether the
// watcher had seen all that there was.
func (v *watching) catchUp(ctx context.Context, live bool) error {
	for {
		events, err := v.svc.readLog(ctx, v.id, v.last)
		if err := v.show(events, live); err != nil {
			return err
		}
		if err != nil || len(events) < watchBatch {
			return err
		}
	}
}

// show sends events.
func (v *watching) show(events []logged, live bool) error {
	for len(events) > 0 {
		next := events[:v.together(events)]
		events = events[len(next):]
		err := v.send(wire.Together(v.steps))
		clear(v.steps) // they are not kept for who waits
		if err != nil {
			return err
		}
		for i := range next {
			if next[i].deleted {
				return errDeleted
			}
			v.last = next[i].seq
			if live {
				v.svc.watched(&next[i])
			}
		}
	}
	return nil
}

// together collects the steps of the events that go together, and says how many there are.
func (v *watching) together(events []logged) int {
	v.steps = v.steps[:0]
	bytes := 0
	for i := range events {
		bytes += events[i].step.Len()
		if i > 0 && (!v.several || bytes > stepBytes) {
			break
		}
		v.steps = append(v.steps, events[i].step)
	}
	return len(v.steps)
}

// goOn sends what happens, once what has happened was sent.
func (v *watching) goOn(ctx context.Context, look *viewer, untilIdle bool) (*pb.Idle, error) {
	t, leave := v.svc.tail(v.id, untilIdle)
	defer leave()
	room := make([]logged, watchGlimpse)
	for {
		seen, err := t.after(v.last, room)
		if err != nil {
			return nil, err
		}
		switch {
		case seen.behind:
			err = v.catchUp(ctx, true)
		case untilIdle && seen.idle != nil:
			return seen.idle, nil
		default:
			err = v.show(seen.events, true)
			clear(seen.events) // they are not kept for who waits
		}
		if err == nil {
			err = v.awaitNews(ctx, seen.news, look)
		}
		if err != nil {
			return nil, err
		}
	}
}

// awaitNews waits until the tail has changed and sends deltas meanwhile: all that came
// before the change was seen.
func (v *watching) awaitNews(ctx context.Context, news chan struct{}, look *viewer) error {
	for {
		select {
		case <-news:
			return v.preview(look)
		case d := <-look.deltas:
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

// preview sends the deltas that are there.
func (v *watching) preview(look *viewer) error {
	for range len(look.deltas) {
		if err := v.send(<-look.deltas); err != nil {
			return err
		}
	}
	return nil
}
