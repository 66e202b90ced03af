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
	mu        sync.Mutex
	onlookers map[tree.SessionID]map[onlooker]struct{}
	begun     *simplelru.LRU[tree.SessionID, *store.RootStart] // see underWay
}

// onlooker is one who looks at a session: a [waiter], a [viewer] or the [feed] of a tail.
// The hub's lock is held while it is told.
type onlooker interface {
	committed(store.SessionUpdate) // this replica has committed something
	unsure()                       // something may have happened
}

// begunMost is of how many new sessions a hub knows that they are under way.
const begunMost = 1000

func newHub() *hub {
	begun, _ := simplelru.NewLRU[tree.SessionID, *store.RootStart](begunMost, nil) // it fails for a size of 0
	return &hub{onlookers: map[tree.SessionID]map[onlooker]struct{}{}, begun: begun}
}

// join joins those who look at a session, until leave is called.
func (h *hub) join(id tree.SessionID, o onlooker) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.onlookers[id] == nil {
		h.onlookers[id] = map[onlooker]struct{}{}
	}
	h.onlookers[id][o] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.onlookers[id], o)
		if len(h.onlookers[id]) == 0 {
			delete(h.onlookers, id)
		}
	}
}

// count says how many look. A tail does for others, who are counted themselves.
func (h *hub) count() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.onlookers {
		for o := range all {
			if _, forOthers := o.(*feed); !forOthers {
				n++
			}
		}
	}
	return n
}

// committed tells those who look at a session of a commit.
func (h *hub) committed(t store.SessionUpdate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.RootStart != nil {
		h.begun.Add(t.Session, t.RootStart)
	} else if begun, _ := h.begun.Peek(t.Session); begun != nil && slices.Contains(t.Ended, begun.Task) {
		h.begun.Remove(t.Session)
	}
	for o := range h.onlookers[t.Session] {
		o.committed(t)
	}
}

// poke makes everyone who looks at a session look again.
func (h *hub) poke(id tree.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun.Remove(id)
	for o := range h.onlookers[id] {
		o.unsure()
	}
}

// pokeAll makes everyone look again.
func (h *hub) pokeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun.Purge()
	for _, all := range h.onlookers {
		for o := range all {
			o.unsure()
		}
	}
}

// underWay reports whether the run that somebody waits for is that with which a new session
// has begun here a moment ago, and is under way as far as is known here. A moment is at most
// until everyone is made to look again. Of no other run it says anything.
func (h *hub) underWay(tenant string, w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun, _ := h.begun.Peek(w.session)
	if begun == nil || begun.Tenant != tenant || !w.of.Task.IsZero() && w.of.Task != begun.Task || w.of.Run > 0 && w.of.Run != begun.Run {
		return false
	}
	w.of = tree.ChildRun{Task: begun.Task, Run: begun.Run}
	return true
}

// narrow makes a waiter wait for one run.
func (h *hub) narrow(w *waiter, of tree.ChildRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.of = of
}

// ended gives how the run has ended that somebody waits for, if that is known.
func (h *hub) ended(w *waiter) *store.RunEnd {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.end == nil || w.end.Run() != w.of {
		return nil
	}
	return w.end
}

// take gives what is offered to a tail, for the last time.
func (h *hub) take(f *feed) offered {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := f.offered
	f.offered = offered{}
	return taken
}

// delta shows a piece of text to those who want such pieces.
func (h *hub) delta(id tree.SessionID, d *pb.Delta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var step *wire.Step
	for o := range h.onlookers[id] {
		v, watches := o.(*viewer)
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
