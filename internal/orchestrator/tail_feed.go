package orchestrator

import "github.com/coppice-run/coppice/internal/store"

// tailFeed tells a tail that there is something to look at, and offers it what this replica has
// committed itself.
type tailFeed struct {
	changed chan struct{} // holds one: look again
	buffer  eventBuffer   // guarded by the hub
}

func newTailFeed() *tailFeed { return &tailFeed{changed: make(chan struct{}, 1)} }

func (f *tailFeed) onCommit(t store.Touched) {
	f.buffer.add(t)
	signal(f.changed)
}

func (f *tailFeed) onMayHaveChanged() {
	f.buffer.incomplete = true
	signal(f.changed)
}

// eventBuffer is what this replica has committed of a session since its tail has looked: events
// without a gap, as they are stored.
type eventBuffer struct {
	events     [][]byte
	last       int64
	incomplete bool // others may have committed too
}

// maxBuffered is how many events are offered to a tail: who is further behind reads the
// store.
const maxBuffered = watchBatch

func (o *eventBuffer) add(t store.Touched) {
	if o.last != t.LastSeq-int64(len(t.Events)) {
		o.events = nil
	}
	o.last, o.events = t.LastSeq, append(o.events, t.Events...)
	if len(o.events) > maxBuffered {
		o.events = nil
	}
}

// after gives the events after one, if all that there are may be among them.
func (o *eventBuffer) after(seq int64) (found [][]byte, all bool) {
	first := o.last - int64(len(o.events)) + 1
	if o.incomplete || len(o.events) == 0 || first > seq+1 {
		return nil, false
	}
	return o.events[min(seq+1-first, int64(len(o.events))):], true
}
