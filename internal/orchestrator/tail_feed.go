package orchestrator

import "github.com/coppice-run/coppice/internal/store"

// tailFeed is the observer of a tail. It signals changes, and buffers the events that this replica
// has committed.
type tailFeed struct {
	changed chan struct{} // holds one: look again
	buffer  eventBuffer   // guarded by the hub
}

func newTailFeed() *tailFeed { return &tailFeed{changed: make(chan struct{}, 1)} }

func (f *tailFeed) onCommit(t store.SessionUpdate) {
	f.buffer.add(t)
	signal(f.changed)
}

func (f *tailFeed) onMayHaveChanged() {
	f.buffer.incomplete = true
	signal(f.changed)
}

// eventBuffer holds the events of a session that this replica has committed since its tail last
// looked: encoded as they are stored, and without a gap.
type eventBuffer struct {
	events     [][]byte
	last       int64
	incomplete bool // another replica may have committed too
}

// maxBuffered bounds the buffered events. A tail that is further behind reads the store.
const maxBuffered = watchBatch

func (o *eventBuffer) add(t store.SessionUpdate) {
	if o.last != t.LastSeq-int64(len(t.Events)) {
		o.events = nil
	}
	o.last, o.events = t.LastSeq, append(o.events, t.Events...)
	if len(o.events) > maxBuffered {
		o.events = nil
	}
}

// after returns the events after seq. all is false if some of them may be missing.
func (o *eventBuffer) after(seq int64) (found [][]byte, all bool) {
	first := o.last - int64(len(o.events)) + 1
	if o.incomplete || len(o.events) == 0 || first > seq+1 {
		return nil, false
	}
	return o.events[min(seq+1-first, int64(len(o.events))):], true
}
