package orchestrator

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/excerpt"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// hub tells who looks at a session that there is something to look at: those who wait
// for a task, and the tail for those who watch. It holds no events: whoever falls behind
// costs a flag, not a queue.
type hub struct {
	mu       sync.Mutex
	watchers map[tree.SessionID]map[*watcher]struct{}
	begun    *simplelru.LRU[tree.SessionID, *store.Begun] // see underWay
}

// watcher is one who looks at a session.
type watcher struct {
	changed chan bool       // holds one: look again, and whether a run of task is known to have ended; nil: the tail says so
	deltas  chan *wire.Step // nil unless wanted
	tail    bool            // looks for others, who are counted themselves
	task    tree.TaskID     // only the end of a run of it is of interest; zero: everything is
	offered offered         // of a tail
	end     *store.End      // of the last run of task that has ended here, if it is known
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

func (o *offered) add(t store.Touched) {
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

// deltaRoom is how many pieces of text a slow watcher may be behind before it
// loses some; they are a preview, the message itself is never lost.
const deltaRoom = 256

// begunMost is of how many new sessions a hub knows that they are under way.
const begunMost = 1000

func newHub() *hub {
	begun, _ := simplelru.NewLRU[tree.SessionID, *store.Begun](begunMost, nil) // it fails for a size of 0
	return &hub{watchers: map[tree.SessionID]map[*watcher]struct{}{}, begun: begun}
}

// watch joins those who look at a session, until stop is called.
func (h *hub) watch(id tree.SessionID) (w *watcher, stop func()) {
	w = &watcher{changed: make(chan bool, 1)}
	return w, h.join(id, w)
}

// watchTail joins those who look at a session's tail, and at text as it is written if
// they want to.
func (h *hub) watchTail(id tree.SessionID, deltas bool) (w *watcher, stop func()) {
	w = &watcher{}
	if deltas {
		w.deltas = make(chan *wire.Step, deltaRoom)
	}
	return w, h.join(id, w)
}

// watchFor is watch for a tail.
func (h *hub) watchFor(id tree.SessionID) (w *watcher, stop func()) {
	w = &watcher{changed: make(chan bool, 1), tail: true}
	return w, h.join(id, w)
}

func (h *hub) join(id tree.SessionID, w *watcher) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[id] == nil {
		h.watchers[id] = map[*watcher]struct{}{}
	}
	h.watchers[id][w] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers[id], w)
		if len(h.watchers[id]) == 0 {
			delete(h.watchers, id)
		}
	}
}

// count says how many look.
func (h *hub) count() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watchers := range h.watchers {
		for w := range watchers {
			if !w.tail {
				n++
			}
		}
	}
	return n
}

// narrow makes a watcher look only when a run of a task has ended, as far as that is told.
func (h *hub) narrow(w *watcher, task tree.TaskID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.task = task
}

// committed makes those look again to whom a commit is of interest.
func (h *hub) committed(t store.Touched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Begun != nil {
		h.begun.Add(t.Session, t.Begun)
	} else if begun, _ := h.begun.Peek(t.Session); begun != nil && slices.Contains(t.Ended, begun.Task) {
		h.begun.Remove(t.Session)
	}
	for w := range h.watchers[t.Session] {
		if w.tail {
			w.offered.add(t)
		}
		ended := slices.Contains(t.Ended, w.task)
		if ended {
			w.end = t.End(w.task)
		}
		if ended || w.task.IsZero() {
			w.poke(ended)
		}
	}
}

// underWay says how far a session's root is, the zero task, if its first run has begun here a
// moment ago, and is under way as far as is known here. Then the watcher is narrowed to it. A
// moment is at most until everyone is made to look again. Of no other run it says anything.
func (h *hub) underWay(w *watcher, tenant string, id tree.SessionID, of tree.ChildRun) (store.Standing, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun, _ := h.begun.Peek(id)
	if begun == nil || begun.Tenant != tenant || !of.Task.IsZero() && of.Task != begun.Task || of.Run > 0 && of.Run != begun.Run {
		return store.Standing{}, false
	}
	w.task = begun.Task
	return begun.Standing, true
}

// ended gives how a run that somebody waits for has ended, if that is known.
func (h *hub) ended(w *watcher, run int) *store.End {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.end == nil || w.end.Run().Run != run {
		return nil
	}
	return w.end
}

// poke makes everyone who looks at a session look again.
func (h *hub) poke(id tree.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun.Remove(id)
	for w := range h.watchers[id] {
		w.offered.unsure = true
		w.poke(false)
	}
}

// take gives what is offered to a tail, for the last time.
func (h *hub) take(w *watcher) offered {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := w.offered
	w.offered = offered{}
	return taken
}

// pokeAll makes everyone look again.
func (h *hub) pokeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun.Purge()
	for _, watchers := range h.watchers {
		for w := range watchers {
			w.offered.unsure = true
			w.poke(false)
		}
	}
}

// poke makes a watcher look again. If it is about to look anyway, it finds out itself
// whether a run has ended.
func (w *watcher) poke(ended bool) {
	select {
	case w.changed <- ended:
	default:
	}
}

// delta shows a piece of text to those who want such pieces.
func (h *hub) delta(id tree.SessionID, d *pb.Delta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var step *wire.Step
	for w := range h.watchers[id] {
		if w.deltas == nil {
			continue
		}
		if step == nil {
			step = wire.DeltaStep(d)
		}
		select {
		case w.deltas <- step:
		default:
		}
	}
}

// show passes a piece of text to those who watch, here or at other replicas, cut into
// pieces of a size that many of them can be kept for a slow watcher.
func (l *slot) show(d *pb.TextDelta) {
	lease := l.current()
	if lease == nil {
		return
	}
	for text, restart := d.GetText(), d.GetRestart(); text != ""; restart = false {
		piece := excerpt.Head(text, dispatch.PieceBytes)
		text = text[len(piece):]
		p := dispatch.Piece{
			Session: lease.session, Task: lease.task, Run: lease.run, Text: piece, Thinking: d.GetThinking(), Restart: restart,
		}
		l.showPiece(p)
		l.relay.put(p)
	}
}
