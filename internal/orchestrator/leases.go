package orchestrator

import (
	"slices"
	"sync"

	"github.com/coppice-run/coppice/internal/tree"
)

// leases knows which attempts are on streams of this replica, or were until a
// moment ago.
type leases struct {
	mu       sync.Mutex
	held     map[tree.TaskID]holding
	expected map[tree.TaskID][]*expectation
	anyOf    map[tree.SessionID]map[*expectation]struct{} // of any attempt of the session
}

// expectation is an attempt that a stream has asked for. It may be ended from outside
// before the stream knows that it has got it.
type expectation struct {
	session tree.SessionID // of an attempt that is not known yet; then there is no task
	task    tree.TaskID
	epoch   int64
	gone    []heldAttempt // attempts that were ended meanwhile
}

// holding is an attempt on a stream; gone is set when it was ended from outside,
// and the stream is told to look. A stream that broke leaves its attempt held for
// the grace.
type holding struct {
	epoch  int64
	attach int
	gone   bool
	let    int // the message whose commands are to go on in the background, of which the worker is to be told; or 0
	look   chan<- struct{}
}

func newLeases() *leases {
	return &leases{
		held: map[tree.TaskID]holding{}, expected: map[tree.TaskID][]*expectation{}, anyOf: map[tree.SessionID]map[*expectation]struct{}{},
	}
}

// expect has to come before the attempt is asked for. It is over with settled.
func (l *leases) expect(task tree.TaskID, epoch int64) *expectation {
	e := &expectation{task: task, epoch: epoch}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected[task] = append(l.expected[task], e)
	return e
}

// expectAny is expect for whatever attempt of a session it will be.
func (l *leases) expectAny(session tree.SessionID) *expectation {
	e := &expectation{session: session}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.anyOf[session] == nil {
		l.anyOf[session] = map[*expectation]struct{}{}
	}
	l.anyOf[session][e] = struct{}{}
	return e
}

// settled ends an expectation: the attempt is held, or somebody else has it.
func (l *leases) settled(e *expectation) {
	if e == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.task.IsZero() {
		delete(l.anyOf[e.session], e)
		if len(l.anyOf[e.session]) == 0 {
			delete(l.anyOf, e.session)
		}
		return
	}
	rest := slices.DeleteFunc(l.expected[e.task], func(other *expectation) bool { return other == e })
	if len(rest) == 0 {
		delete(l.expected, e.task)
		return
	}
	l.expected[e.task] = rest
}

// add holds an attempt that was expected, unless it has come back over another stream
// already.
func (l *leases) add(a *lease, e *expectation, look chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[a.task]; h.epoch == a.token.Epoch && h.attach > a.attach {
		return
	}
	l.held[a.task] = holding{epoch: a.token.Epoch, attach: a.attach, look: look}
	if slices.Contains(e.gone, heldAttempt{a.task, a.token.Epoch}) {
		l.end(a.task)
	}
}

// drop forgets an attempt, unless it has come back over another stream.
func (l *leases) drop(a *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[a.task]; h.epoch == a.token.Epoch && h.attach == a.attach {
		delete(l.held, a.task)
	}
}

// revoke tells the stream that holds an attempt that it was ended from outside.
// It never waits: a stream that has been told already need not be told again.
func (l *leases) revoke(session tree.SessionID, task tree.TaskID, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.expected[task] {
		e.gone = append(e.gone, heldAttempt{task, epoch})
	}
	for e := range l.anyOf[session] {
		e.gone = append(e.gone, heldAttempt{task, epoch})
	}
	if h, held := l.held[task]; held && h.epoch == epoch {
		l.end(task)
	}
}

// end tells the stream that holds an attempt that it is over.
func (l *leases) end(task tree.TaskID) {
	h := l.held[task]
	h.gone = true
	l.held[task] = h
	poke(h.look)
}

// release tells the stream that holds an attempt that commands of a message are to go
// on in the background. It never waits.
func (l *leases) release(task tree.TaskID, epoch int64, message int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, held := l.held[task]
	if !held || h.epoch != epoch {
		return
	}
	h.let = message
	l.held[task] = h
	poke(h.look)
}

// released gives the message whose commands are to go on in the background, once.
func (l *leases) released(task tree.TaskID, epoch int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, held := l.held[task]
	if !held || h.epoch != epoch {
		return 0
	}
	message := h.let
	h.let = 0
	l.held[task] = h
	return message
}

// gone reports whether an attempt on a stream was ended from outside.
func (l *leases) gone(task tree.TaskID, epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[task]
	return h.epoch == epoch && h.gone
}

func (l *leases) holds(task tree.TaskID, epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[task].epoch == epoch
}

// epoch gives the latest delivery of a task that is held or expected here: an older one
// may still be held for the grace while a stream has asked for the next.
func (l *leases) epoch(task tree.TaskID) (epoch int64, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, held := l.held[task]
	epoch, any = h.epoch, held
	for _, e := range l.expected[task] {
		epoch, any = max(epoch, e.epoch), true
	}
	return epoch, any
}

// heldAttempt is an attempt that is held here.
type heldAttempt struct {
	task  tree.TaskID
	epoch int64
}

// all lists what is held.
func (l *leases) all() []heldAttempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []heldAttempt
	for task, h := range l.held {
		if !h.gone {
			found = append(found, heldAttempt{task, h.epoch})
		}
	}
	return found
}
