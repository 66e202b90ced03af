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

// hub tells who looks at a session that there is something to look at. It holds no events:
// whoever falls behind costs a flag, not a queue.
type hub struct {
	mu          sync.Mutex
	observers   map[tree.SessionID]map[observer]struct{}
	newSessions *simplelru.LRU[tree.SessionID, *store.Begun] // see underWay
}

// observer is one who looks at a session: a [waiter], a [viewer] or the [feed] of a tail.
// The hub's lock is held while it is told.
type observer interface {
	onCommit(store.Touched) // this replica has committed something
	onMayHaveChanged()      // something may have happened
}

// maxNewSessions is of how many new sessions a hub knows that they are under way.
const maxNewSessions = 1000

func newHub() *hub {
	begun, _ := simplelru.NewLRU[tree.SessionID, *store.Begun](maxNewSessions, nil) // it fails for a size of 0
	return &hub{observers: map[tree.SessionID]map[observer]struct{}{}, newSessions: begun}
}

// subscribe joins those who look at a session, until leave is called.
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

// count says how many look. A tail does for others, who are counted themselves.
func (h *hub) count() (n int) {
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

// notifyCommit tells those who look at a session of a commit.
func (h *hub) notifyCommit(t store.Touched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Begun != nil {
		h.newSessions.Add(t.Session, t.Begun)
	} else if begun, _ := h.newSessions.Peek(t.Session); begun != nil && slices.Contains(t.Ended, begun.Task) {
		h.newSessions.Remove(t.Session)
	}
	for o := range h.observers[t.Session] {
		o.onCommit(t)
	}
}

// notify makes everyone who looks at a session look again.
func (h *hub) notify(id tree.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newSessions.Remove(id)
	for o := range h.observers[id] {
		o.onMayHaveChanged()
	}
}

// notifyAll makes everyone look again.
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

// isNewAndRunning reports whether the run that somebody waits for is that with which a new session
// has begun here a moment ago, and is under way as far as is known here. A moment is at most
// until everyone is made to look again. Of no other run it says anything.
func (h *hub) isNewAndRunning(tenant string, w *waiter) bool {
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

// knownEnd gives how the run has ended that somebody waits for, if that is known.
func (h *hub) knownEnd(w *waiter) *store.End {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.end == nil || w.end.Run() != w.target {
		return nil
	}
	return w.end
}

// takeBuffer gives what is offered to a tail, for the last time.
func (h *hub) takeBuffer(f *tailFeed) eventBuffer {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := f.buffer
	f.buffer = eventBuffer{}
	return taken
}

// sendDelta shows a piece of text to those who want such pieces.
func (h *hub) sendDelta(id tree.SessionID, d *pb.Delta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var step *wire.Step
	for o := range h.observers[id] {
		v, watches := o.(*deltaObserver)
		if !watches || v.deltas == nil {
			continue
		}
		if step == nil {
			step = wire.DeltaStep(d)
		}
		select {
		case v.deltas <- step:
		default:
		}
	}
}
