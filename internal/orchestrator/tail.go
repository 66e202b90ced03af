package orchestrator

import (
	"context"
	"sync"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// What a tail keeps: events for once to twice so long, if there is room for them. They
// are for those who are a little behind: whoever is further behind reads the store. So
// many of them are kept that a machine which is short of time for a moment need not
// also read for each watcher.
const (
	tailKeeps = 2 * time.Second
	tailRoom  = 8192
	tailBytes = 1 << 20
)

// A tail that is read wakes each watcher, which costs more than the reading. So the
// more there are, the longer the next reading waits for what else happens; after a
// pause the first event waits for nothing.
const (
	breathEach = 50 * time.Microsecond
	breathMost = 4 * time.Millisecond
)

// tail is the end of a session's log, shared by all who watch the session here: one
// goroutine takes what is new from the commit that says so, or reads it from the store if
// another replica may have committed too, and each event is decoded and encoded once. What
// it gives is committed and in order, whichever replica has committed it.
//
// A watcher has a cursor, and nothing queues for it. It reads the store until it has
// seen everything, and then the tail; it reads the store again when the tail has gone on
// without it.
type tail struct {
	svc     *Service
	session tree.SessionID
	again   chan struct{} // holds one: read, whatever has been committed
	stop    context.CancelFunc
	done    chan struct{} // closed when nobody reads any more

	mu       sync.Mutex
	watchers int
	waiting  int           // of them, those who want to know when the session is idle
	begun    bool          // somebody has said where the tail begins
	events   []logged      // the last ones, without a gap
	bytes    int           // of their steps
	aged     int           // of them, those that were there when the last were let go for their age
	agedAt   time.Time     // when that was
	last     int64         // the last event that was read
	idle     *pb.Idle      // the session is idle as of last; nil: it is not, or nobody wants to know
	err      error         // what has ended the reading
	news     chan struct{} // closed when any of this has changed
}

// glimpse is what a watcher sees of a tail.
type glimpse struct {
	events []logged
	behind bool          // the tail has gone on without the watcher, who has to read the store
	idle   *pb.Idle      // the watcher has seen everything, and nothing goes on
	news   chan struct{} // closed as soon as it is worth another look
}

// always is for those who need not wait.
var always = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// after copies what comes after an event that the watcher has seen, as far as there is
// room for it. The first watcher says with it where the tail begins.
func (t *tail) after(seq int64, room []logged) (glimpse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.begun && seq < t.last-int64(len(t.events)):
		return glimpse{behind: true, news: always}, nil
	case t.begun && seq < t.last:
		n := copy(room, t.events[len(t.events)-int(t.last-seq):])
		return glimpse{events: room[:n], news: always}, nil
	case t.err != nil:
		return glimpse{}, t.err
	case !t.begun:
		t.begun, t.last = true, seq
		t.readAgain()
	case seq == t.last:
		return glimpse{idle: t.idle, news: t.news}, nil
	}
	// The watcher has seen all that there was, and the tail may be about to read it.
	return glimpse{news: t.news}, nil
}

func (t *tail) readAgain() { signal(t.again) }

// run reads until ctx ends or reading fails, which those who watch are told.
func (t *tail) run(ctx context.Context, f *tailFeed) {
	defer close(t.done)
	quiet := time.NewTimer(tailKeeps)
	defer quiet.Stop()
	for read := (time.Time{}); ; {
		unsure := false
		select {
		case <-f.changed:
		case <-t.again:
			unsure = true
		case <-quiet.C:
			t.forget()
			continue
		case <-ctx.Done():
			return
		}
		if !rest(ctx, time.Until(read.Add(t.breath()))) {
			return
		}
		news := t.svc.hub.takeBuffer(f)
		news.incomplete = news.incomplete || unsure
		if err := t.read(ctx, news); err != nil {
			t.fail(err)
			return
		}
		read = time.Now()
		quiet.Reset(tailKeeps)
	}
}

// breath is how long it takes from one reading to the next, at least.
func (t *tail) breath() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(time.Duration(t.watchers-1)*breathEach, breathMost)
}

// rest reports whether ctx has outlasted the pause.
func rest(ctx context.Context, pause time.Duration) bool {
	if pause <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read appends what is new, and looks whether the session is idle if that is of
// interest to somebody. What this replica has just committed need not be read.
func (t *tail) read(ctx context.Context, news eventBuffer) error {
	for more := true; more; {
		from, begun := t.position()
		if !begun {
			return nil
		}
		found, err := t.look(ctx, news, from)
		t.put(found)
		if err != nil {
			return err
		}
		news, more = eventBuffer{}, len(found) == watchBatch
		if more || !t.askIdle() {
			continue
		}
		var idle *pb.Idle
		if idle, more, err = t.svc.lookIdle(ctx, t.session, from+int64(len(found))); err != nil {
			return err
		}
		t.rests(idle)
	}
	return nil
}

// look gives the events after one.
func (t *tail) look(ctx context.Context, news eventBuffer, from int64) ([]logged, error) {
	rows, all := news.after(from)
	if !all {
		return t.svc.readLog(ctx, t.session, from)
	}
	found := make([]logged, 0, len(rows))
	for _, data := range rows {
		e, err := wire.DecodeEvent(data)
		if err != nil {
			return found, err
		}
		found = append(found, newLogged(e, data))
	}
	return found, nil
}

func (t *tail) position() (last int64, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.begun
}

// put appends events to what the watchers see, and lets go of old ones.
func (t *tail) put(found []logged) {
	if len(found) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.agedAt) >= tailKeeps {
		t.drop(t.aged)
		t.aged, t.agedAt = len(t.events), now
	}
	for _, e := range found {
		t.bytes += e.step.Len()
	}
	t.events = append(t.events, found...)
	t.fit()
	t.last, t.idle = found[len(found)-1].seq, nil
	t.tell()
}

// fit lets go of the oldest events if there are too many: of some more than it has to, so
// that it need not do so each time.
func (t *tail) fit() {
	if len(t.events) <= tailRoom && t.bytes <= tailBytes {
		return
	}
	drop, left := 0, t.bytes
	for len(t.events)-drop > tailRoom*3/4 || left > tailBytes*3/4 {
		left -= t.events[drop].step.Len()
		drop++
	}
	t.drop(drop)
}

// drop lets go of the oldest events.
func (t *tail) drop(n int) {
	for _, e := range t.events[:n] {
		t.bytes -= e.step.Len()
	}
	kept := copy(t.events, t.events[n:])
	clear(t.events[kept:])
	t.events, t.aged = t.events[:kept], max(0, t.aged-n)
}

// forget lets go of all events: who has not seen them by now is slow, and reads the store.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events, t.bytes, t.aged = nil, 0, 0
}

// askIdle reports whether it is of interest whether the session is idle, and not plain
// from what has happened last.
func (t *tail) askIdle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting > 0 && (len(t.events) == 0 || !t.events[len(t.events)-1].busy)
}

// rests says whether the session is idle as of the last event.
func (t *tail) rests(idle *pb.Idle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle = idle; idle != nil {
		t.tell()
	}
}

func (t *tail) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.tell()
}

// tell wakes all watchers that wait. The caller holds the lock.
func (t *tail) tell() {
	close(t.news)
	t.news = make(chan struct{})
}
