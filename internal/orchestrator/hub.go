package orchestrator

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// hub notifies the observers of a session that something may have changed. It queues no events, so
// a slow observer costs a flag, not memory.
type hub struct {
	mu          sync.Mutex
	observers   map[tree.SessionID]map[observer]struct{}
	newSessions *simplelru.LRU[tree.SessionID, *store.RootStart] // see isFirstUnderWay
}

// observer observes a session: a [waiter], a [deltaObserver] or the [tailFeed] of a tail. Its
// methods are called under the hub's lock, and must not block.
type observer interface {
	onCommit(store.SessionUpdate) // this replica has committed
	onMayHaveChanged()            // something may have changed
}

// maxNewSessions bounds the new sessions whose first run is known to be under way.
const maxNewSessions = 1000

func newHub() *hub {
	begun, _ := simplelru.NewLRU[tree.SessionID, *store.RootStart](maxNewSessions, nil) // fails only for a size of 0
	return &hub{observers: map[tree.SessionID]map[observer]struct{}{}, newSessions: begun}
}

// subscribe adds an observer of a session, until leave is called.
func (h *hub) subscribe(id tree.SessionID, o observer) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.observers[id] == nil {
		h.observers[id] = map[observer]struct{}{}
	}
	h.observers[id][o] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.observers[id], o)
		if len(h.observers[id]) == 0 {
			delete(h.observers, id)
		}
	}
}

// countObservers returns how many observers there are. The feeds of tails are left out, because the
// watchers of a tail are counted themselves.
func (h *hub) countObservers() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.observers {
		for o := range all {
			if _, forOthers := o.(*tailFeed); !forOthers {
				n++
			}
		}
	}
	return n
}

// notifyCommit tells the observers of a session about a commit.
func (h *hub) notifyCommit(t store.SessionUpdate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.RootStart != nil {
		h.newSessions.Add(t.Session, t.RootStart)
	} else if begun, _ := h.newSessions.Peek(t.Session); begun != nil && slices.Contains(t.Ended, begun.Task) {
		h.newSessions.Remove(t.Session)
	}
	for o := range h.observers[t.Session] {
		o.onCommit(t)
	}
}

// notify makes the observers of a session look again.
func (h *hub) notify(id tree.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newSessions.Remove(id)
	for o := range h.observers[id] {
		o.onMayHaveChanged()
	}
}

// notifyAll makes all observers look again.
func (h *hub) notifyAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newSessions.Purge()
	for _, all := range h.observers {
		for o := range all {
			o.onMayHaveChanged()
		}
	}
}

// isFirstUnderWay reports whether a waiter waits for the first run of a session that was opened
// here recently, and the run is under way as far as this replica knows. If so, it sets the waiter's
// target to that run. "Recently" ends at the latest with the next notifyAll. For any other run it
// returns false, which says nothing about that run.
func (h *hub) isFirstUnderWay(tenant string, w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun, _ := h.newSessions.Peek(w.session)
	if begun == nil || begun.Tenant != tenant || !w.target.Task.IsZero() && w.target.Task != begun.Task || w.target.Run > 0 && w.target.Run != begun.Run {
		return false
	}
	w.target = tree.ChildRun{Task: begun.Task, Run: begun.Run}
	return true
}

// setTarget makes a waiter wait for one run.
func (h *hub) setTarget(w *waiter, of tree.ChildRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.target = of
}

// knownEnd returns how the run that a waiter waits for has ended, or nil if that is not known.
func (h *hub) knownEnd(w *waiter) *store.RunEnd {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.end == nil || w.end.Run() != w.target {
		return nil
	}
	return w.end
}

// takeBuffer removes and returns what is buffered for a tail.
func (h *hub) takeBuffer(f *tailFeed) eventBuffer {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := f.buffer
	f.buffer = eventBuffer{}
	return taken
}

// sendDelta passes a piece of text to the observers that want text.
func (h *hub) sendDelta(id tree.SessionID, d *pb.Delta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var step *wire.Step
	for o := range h.observers[id] {
		v, watches := o.(*deltaObserver)
		if !watches || v.queue == nil {
			continue
		}
		if step == nil {
			step = wire.DeltaStep(d)
		}
		select {
		case v.queue <- step:
		default:
		}
	}
}
