package orchestrator

import (
	"context"
	"sync"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// A tail keeps events for one to two times tailRetention, up to maxTailEvents and maxTailBytes.
// They are for watchers that are a little behind; a watcher that is further behind reads the store.
// The bounds are wide so that a machine that is short of CPU for a moment need not also read the
// store for each watcher.
const (
	tailRetention = 2 * time.Second
	maxTailEvents = 8192
	maxTailBytes  = 1 << 20
)

// Each read of a tail wakes all its watchers, which costs more than the read. So the more watchers
// there are, the longer the next read waits for further events. After a pause, the first event does
// not wait.
const (
	readPausePerWatcher = 50 * time.Microsecond
	maxReadPause        = 4 * time.Millisecond
)

// tail is the end of a session's log, shared by all watchers of the session here. One goroutine
// takes new events from the commit that reports them, or reads them from the store if another
// replica may have committed too. Each event is decoded and encoded once. Events are committed and
// in order, whichever replica has committed them.
//
// A watcher has a cursor, and no queue. It reads the store until it has seen everything, and then
// the tail. It reads the store again when the tail has dropped events that it has not seen.
type tail struct {
	svc     *Service
	session tree.SessionID
	reread  chan struct{} // holds one: read the store, whatever has been committed
	stop    context.CancelFunc
	done    chan struct{} // closed when the reading goroutine ends

	mu          sync.Mutex
	watchers    int
	idleWaiters int           // how many watchers want to know when the session is idle
	positioned  bool          // last is set: the first watcher has set it
	events      []watchEvent  // the last events, without a gap
	bytes       int           // the size of the events' steps
	oldEvents   int           // how many of the events were there at trimmedAt; they are dropped at the next trim for age
	trimmedAt   time.Time     // when events were last dropped for their age
	last        int64         // the sequence number of the last event that was read
	idle        *pb.Idle      // the session is idle as of last; nil: it is not, or no watcher wants to know
	err         error         // why the reading ended
	changed     chan struct{} // closed and replaced when any of this changes
}

// tailView is what a watcher sees of a tail.
type tailView struct {
	events  []watchEvent
	behind  bool          // the tail has dropped events that the watcher has not seen: read the store
	idle    *pb.Idle      // the watcher has seen everything, and the session is idle
	changed chan struct{} // closed as soon as another look is worthwhile
}

// closedChan is the changed channel of a view that is followed by another look at once.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// after copies the events after seq into room, as many as fit. The first call sets where the tail
// begins.
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
	// The watcher has just joined, or it has read events from the store that the tail is about to read.
	return tailView{changed: t.changed}, nil
}

func (t *tail) requestRead() { signal(t.reread) }

// run reads until ctx ends or reading fails, and tells the watchers of a failure.
func (t *tail) run(ctx context.Context, f *tailFeed) {
	defer close(t.done)
	quiet := time.NewTimer(tailRetention)
	defer quiet.Stop()
	for read := (time.Time{}); ; {
		reread := false
		select {
		case <-f.changed:
		case <-t.reread:
			reread = true
		case <-quiet.C:
			t.dropAll()
			continue
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, time.Until(read.Add(t.readPause()))) {
			return
		}
		buffered := t.svc.hub.takeBuffer(f)
		buffered.incomplete = buffered.incomplete || reread
		if err := t.read(ctx, buffered); err != nil {
			t.fail(err)
			return
		}
		read = time.Now()
		quiet.Reset(tailRetention)
	}
}

// readPause returns the minimum pause between two reads.
func (t *tail) readPause() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(time.Duration(t.watchers-1)*readPausePerWatcher, maxReadPause)
}

// sleep waits for the pause, and reports false if ctx ended first.
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

// read appends new events, and checks whether the session is idle if a watcher wants to know.
// Buffered events need not be read from the store.
func (t *tail) read(ctx context.Context, buffered eventBuffer) error {
	for more := true; more; {
		from, begun := t.position()
		if !begun {
			return nil
		}
		found, err := t.fetch(ctx, buffered, from)
		t.appendEvents(found)
		if err != nil {
			return err
		}
		buffered, more = eventBuffer{}, len(found) == watchBatch
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

// fetch returns the events after from.
func (t *tail) fetch(ctx context.Context, buffered eventBuffer, from int64) ([]watchEvent, error) {
	rows, all := buffered.after(from)
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

// appendEvents appends events, drops old ones and wakes the watchers.
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

// trim drops the oldest events if there are too many. It drops a quarter of the bounds more than it
// has to, so that it need not do so each time.
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

// drop drops the n oldest events.
func (t *tail) drop(n int) {
	for _, e := range t.events[:n] {
		t.bytes -= e.step.Len()
	}
	kept := copy(t.events, t.events[n:])
	clear(t.events[kept:])
	t.events, t.oldEvents = t.events[:kept], max(0, t.oldEvents-n)
}

// dropAll drops all events. A watcher that has not seen them by now is slow, and reads the store.
func (t *tail) dropAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events, t.bytes, t.oldEvents = nil, 0, 0
}

// needsIdleCheck reports whether a watcher wants to know if the session is idle and the last event
// does not answer that.
func (t *tail) needsIdleCheck() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.idleWaiters > 0 && (len(t.events) == 0 || !t.events[len(t.events)-1].busy)
}

// setIdle sets whether the session is idle as of the last event.
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

// wakeWatchers wakes all watchers that wait. It requires the lock.
func (t *tail) wakeWatchers() {
	close(t.changed)
	t.changed = make(chan struct{})
}
