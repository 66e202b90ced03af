package orchestrator

import (
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// leases knows which attempts are on streams of this replica, or were until a
// moment ago: one whose stream broke is held for the grace.
type leases struct {
	mu       sync.Mutex
	held     map[tree.TaskID]*lease
	expected map[tree.TaskID][]*expectation
	anyOf    map[tree.SessionID]map[*expectation]struct{} // of any attempt of the session
}

// expectation is an attempt that a stream has asked for. It may be ended from outside
// before the stream knows that it has got it.
type expectation struct {
	session tree.SessionID // of an attempt that is not known yet; then there is no task
	task    tree.TaskID
	epoch   int64
	revoked []attemptKey // attempts that were ended meanwhile
}

func newLeases() *leases {
	return &leases{
		held: map[tree.TaskID]*lease{}, expected: map[tree.TaskID][]*expectation{}, anyOf: map[tree.SessionID]map[*expectation]struct{}{},
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

// settle ends an expectation: the attempt is held, or somebody else has it.
func (l *leases) settle(e *expectation) {
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

// add holds an attempt, unless it has come back over another stream already. e is nil if
// it was not expected. Through look its stream is told that there is news of it.
func (l *leases) add(a *lease, e *expectation, look chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again := l.find(a.task, a.token.Epoch); again != nil && again.attach > a.attach {
		return
	}
	l.held[a.task], a.changed = a, look
	if e != nil && slices.Contains(e.revoked, attemptKey{a.task, a.token.Epoch}) {
		a.markRevoked()
	}
}

// drop forgets an attempt, unless it has come back over another stream.
func (l *leases) drop(a *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[a.task] == a {
		delete(l.held, a.task)
	}
}

// revoke tells the stream that holds an attempt that it was ended from outside.
// It never waits: a stream that has been told already need not be told again.
func (l *leases) revoke(session tree.SessionID, task tree.TaskID, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.expected[task] {
		e.revoked = append(e.revoked, attemptKey{task, epoch})
	}
	for e := range l.anyOf[session] {
		e.revoked = append(e.revoked, attemptKey{task, epoch})
	}
	if a := l.find(task, epoch); a != nil {
		a.markRevoked()
	}
}

// find gives an attempt if it is held. It needs the lock.
func (l *leases) find(task tree.TaskID, epoch int64) *lease {
	if a := l.held[task]; a != nil && a.token.Epoch == epoch {
		return a
	}
	return nil
}

// markRevoked tells the stream of an attempt that it is over. It needs the lock of leases.
func (a *lease) markRevoked() {
	a.revoked = true
	signal(a.changed)
}

// release tells the stream that holds an attempt that commands of a message are to go
// on in the background. It never waits.
func (l *leases) release(task tree.TaskID, epoch int64, message int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.find(task, epoch); a != nil {
		a.releaseMessage = message
		signal(a.changed)
	}
}

// takeRelease gives the message whose commands are to go on in the background, once.
func (l *leases) takeRelease(a *lease) (message int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	message, a.releaseMessage = a.releaseMessage, 0
	return message
}

// isRevoked reports whether an attempt was ended from outside.
func (l *leases) isRevoked(a *lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.revoked
}

func (l *leases) holds(task tree.TaskID, epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.find(task, epoch) != nil
}

// latestEpoch gives the latest delivery of a task that is held or expected here: an older one
// may still be held for the grace while a stream has asked for the next.
func (l *leases) latestEpoch(task tree.TaskID) (epoch int64, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.held[task]; a != nil {
		epoch, any = a.token.Epoch, true
	}
	for _, e := range l.expected[task] {
		epoch, any = max(epoch, e.epoch), true
	}
	return epoch, any
}

// attemptKey is an attempt that is held here.
type attemptKey struct {
	task  tree.TaskID
	epoch int64
}

// longestSilence is for how long nothing was heard of the attempt of an agent of which nothing was heard
// for longest.
func (l *leases) longestSilence(now time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.held {
		if heard := a.lastHeard.Load(); heard != 0 && !a.revoked {
			longest = max(longest, now.Sub(time.Unix(0, heard)))
		}
	}
	return longest
}

// all lists what is held.
func (l *leases) all() []attemptKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []attemptKey
	for task, a := range l.held {
		if !a.revoked {
			found = append(found, attemptKey{task, a.token.Epoch})
		}
	}
	return found
}
