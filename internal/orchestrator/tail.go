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
	tailRetention = 2 * time.Second
	maxTailEvents = 8192
	maxTailBytes  = 1 << 20
)

// A tail that is read wakes each watcher, which costs more than the reading. So the
// more there are, the longer the next reading waits for what else happens; after a
// pause the first event waits for nothing.
const (
	readPausePerWatcher = 50 * time.Microsecond
	maxReadPause        = 4 * time.Millisecond
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
	reread  chan struct{} // holds one: read, whatever has been committed
	stop    context.CancelFunc
	done    chan struct{} // closed when nobody reads any more

	mu          sync.Mutex
	watchers    int
	idleWaiters int           // of them, those who want to know when the session is idle
	positioned  bool          // somebody has said where the tail begins
	events      []watchEvent  // the last ones, without a gap
	bytes       int           // of their steps
	oldEvents   int           // of them, those that were there when the last were let go for their age
	trimmedAt   time.Time     // when that was
	last        int64         // the last event that was read
	idle        *pb.Idle      // the session is idle as of last; nil: it is not, or nobody wants to know
	err         error         // what has ended the reading
	changed     chan struct{} // closed when any of this has changed
}

// tailView is what a watcher sees of a tail.
type tailView struct {
	events  []watchEvent
	behind  bool          // the tail has gone on without the watcher, who has to read the store
	idle    *pb.Idle      // the watcher has seen everything, and nothing goes on
	changed chan struct{} // closed as soon as it is worth another look
}

// closedChan is for those who need not wait.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// after copies what comes after an event that the watcher has seen, as far as there is
// room for it. The first watcher says with it where the tail begins.
func (t *tail) after(seq int64, room []watchEvent) (tailView, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.positioned && seq < t.last-int64(len(t.events)):
		return tailView{behind: true, changed: closedChan}, nil
	case t.positioned && seq < t.last:
		n := copy(room, t.events[len(t.events)-int(t.last-seq):])
		return tailView{events: room[:n], changed: closedChan}, nil
	case t.err != nil:
		return tailView{}, t.err
	case !t.positioned:
		t.positioned, t.last = true, seq
		t.requestRead()
	case seq == t.last:
		return tailView{idle: t.idle, changed: t.changed}, nil
	}
	// The watcher has seen all that there was, and the tail may be about to read it.
	return tailView{changed: t.changed}, nil
}

func (t *tail) requestRead() { signal(t.reread) }

// run reads until ctx ends or reading fails, which those who watch are told.
func (t *tail) run(ctx context.Context, f *tailFeed) {
	defer close(t.done)
	quiet := time.NewTimer(tailRetention)
	defer quiet.Stop()
	for read := (time.Time{}); ; {
		unsure := false
		select {
		case <-f.changed:
		case <-t.reread:
			unsure = true
		case <-quiet.C:
			t.dropAll()
			continue
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, time.Until(read.Add(t.readPause()))) {
			return
		}
		news := t.svc.hub.takeBuffer(f)
		news.incomplete = news.incomplete || unsure
		if err := t.read(ctx, news); err != nil {
			t.fail(err)
			return
		}
		read = time.Now()
		quiet.Reset(tailRetention)
	}
}

// readPause is how long it takes from one reading to the next, at least.
func (t *tail) readPause() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(time.Duration(t.watchers-1)*readPausePerWatcher, maxReadPause)
}

// sleep reports whether ctx has outlasted the pause.
func sleep(ctx context.Context, pause time.Duration) bool {
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
		found, err := t.fetch(ctx, news, from)
		t.appendEvents(found)
		if err != nil {
			return err
		}
		news, more = eventBuffer{}, len(found) == watchBatch
		if more || !t.needsIdleCheck() {
			continue
		}
		var idle *pb.Idle
		if idle, more, err = t.svc.checkIdle(ctx, t.session, from+int64(len(found))); err != nil {
			return err
		}
		t.setIdle(idle)
	}
	return nil
}

// fetch gives the events after one.
func (t *tail) fetch(ctx context.Context, news eventBuffer, from int64) ([]watchEvent, error) {
	rows, all := news.after(from)
	if !all {
		return t.svc.readLog(ctx, t.session, from)
	}
	found := make([]watchEvent, 0, len(rows))
	for _, data := range rows {
		e, err := wire.DecodeEvent(data)
		if err != nil {
			return found, err
		}
		found = append(found, newWatchEvent(e, data))
	}
	return found, nil
}

func (t *tail) position() (last int64, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.positioned
}

// appendEvents appends events to what the watchers see, and lets go of old ones.
func (t *tail) appendEvents(found []watchEvent) {
	if len(found) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.trimmedAt) >= tailRetention {
		t.drop(t.oldEvents)
		t.oldEvents, t.trimmedAt = len(t.events), now
	}
	for _, e := range found {
		t.bytes += e.step.Len()
	}
	t.events = append(t.events, found...)
	t.trim()
	t.last, t.idle = found[len(found)-1].seq, nil
	t.wakeWatchers()
}

// trim lets go of the oldest events if there are too many: of some more than it has to, so
// that it need not do so each time.
func (t *tail) trim() {
	if len(t.events) <= maxTailEvents && t.bytes <= maxTailBytes {
		return
	}
	drop, left := 0, t.bytes
	for len(t.events)-drop > maxTailEvents*3/4 || left > maxTailBytes*3/4 {
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
	t.events, t.oldEvents = t.events[:kept], max(0, t.oldEvents-n)
}

// dropAll lets go of all events: who has not seen them by now is slow, and reads the store.
func (t *tail) dropAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events, t.bytes, t.oldEvents = nil, 0, 0
}

// needsIdleCheck reports whether it is of interest whether the session is idle, and not plain
// from what has happened last.
func (t *tail) needsIdleCheck() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.idleWaiters > 0 && (len(t.events) == 0 || !t.events[len(t.events)-1].busy)
}

// setIdle says whether the session is idle as of the last event.
func (t *tail) setIdle(idle *pb.Idle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle = idle; idle != nil {
		t.wakeWatchers()
	}
}

func (t *tail) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.wakeWatchers()
}

// wakeWatchers wakes all watchers that wait. The caller holds the lock.
func (t *tail) wakeWatchers() {
	close(t.changed)
	t.changed = make(chan struct{})
}
