package orchestrator

import "github.com/coppice-run/coppice/internal/store"

// feed tells a tail that there is something to look at, and offers it what this replica has
// committed itself.
type feed struct {
	changed chan struct{} // holds one: look again
	offered offered       // guarded by the hub
}

func newFeed() *feed { return &feed{changed: make(chan struct{}, 1)} }

func (f *feed) committed(t store.SessionUpdate) {
	f.offered.add(t)
	poke(f.changed)
}

func (f *feed) unsure() {
	f.offered.unsure = true
	poke(f.changed)
}

// offered is what this replica has committed of a session since its tail has looked: events
// without a gap, as they are stored.
type offered struct {
	events [][]byte
	last   int64
	unsure bool // others may have committed too
}

// offeredMost is how many events are offered to a tail: who is further behind reads the
// store.
const offeredMost = watchBatch

func (o *offered) add(t store.SessionUpdate) {
	if o.last != t.LastSeq-int64(len(t.Events)) {
		o.events = nil
	}
	o.last, o.events = t.LastSeq, append(o.events, t.Events...)
	if len(o.events) > offeredMost {
		o.events = nil
	}
}

// after gives the events after one, if all that there are may be among them.
func (o *offered) after(seq int64) (found [][]byte, all bool) {
	first := o.last - int64(len(o.events)) + 1
	if o.unsure || len(o.events) == 0 || first > seq+1 {
		return nil, false
	}
	return o.events[min(seq+1-first, int64(len(o.events))):], true
}
