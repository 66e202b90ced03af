package orchestrator

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// leases holds the attempts that are on streams of this replica. An attempt whose stream broke is
// held for the grace.
type leases struct {
	mu       sync.Mutex
	held     map[tree.TaskID]*lease
	expected map[tree.TaskID][]*expectation
	anyOf    map[tree.SessionID]map[*expectation]struct{} // expectations of any attempt of a session
}

// expectation is an attempt that a stream has asked for. The attempt may be revoked before the
// stream knows that it has it.
type expectation struct {
	session tree.SessionID // set if any attempt of the session is expected; then task is zero
	task    tree.TaskID
	epoch   int64
	revoked []attemptKey // attempts that were revoked meanwhile
}

func newLeases() *leases {
	return &leases{
		held: map[tree.TaskID]*lease{}, expected: map[tree.TaskID][]*expectation{}, anyOf: map[tree.SessionID]map[*expectation]struct{}{},
	}
}

// expect registers an expectation. Call it before the request for the attempt is submitted, and
// settle afterwards.
func (l *leases) expect(task tree.TaskID, epoch int64) *expectation {
	e := &expectation{task: task, epoch: epoch}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected[task] = append(l.expected[task], e)
	return e
}

// expectAny is expect for any attempt of a session.
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

// settle removes an expectation. nil is ignored.
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

// add holds an attempt, unless a newer attachment of it or a later attempt of its task is held
// already. e is nil if the attempt was not expected. changed signals its stream that the attempt
// was revoked or its commands released.
func (l *leases) add(a *lease, e *expectation, changed chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.held[a.task]; last != nil && last.isAfter(a) {
		return
	}
	l.held[a.task], a.changed = a, changed
	if e != nil && slices.Contains(e.revoked, attemptKey{a.task, a.token.Epoch}) {
		a.markRevoked()
	}
}

// isAfter reports whether an attempt is a later one of the same task, or a newer attachment of the
// same attempt.
func (a *lease) isAfter(other *lease) bool {
	return cmp.Or(cmp.Compare(a.token.Epoch, other.token.Epoch), cmp.Compare(a.attach, other.attach)) > 0
}

// drop forgets an attempt, unless it has come back over another stream.
func (l *leases) drop(a *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[a.task] == a {
		delete(l.held, a.task)
	}
}

// revoke tells the stream of an attempt that the attempt was ended from outside. It never blocks.
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

// find returns a held attempt, or nil. It requires the lock.
func (l *leases) find(task tree.TaskID, epoch int64) *lease {
	if a := l.held[task]; a != nil && a.token.Epoch == epoch {
		return a
	}
	return nil
}

// markRevoked requires the lock of leases.
func (a *lease) markRevoked() {
	a.revoked = true
	signal(a.changed)
}

// release tells the stream of an attempt that the commands of a message are to continue in the
// background. It never blocks.
func (l *leases) release(task tree.TaskID, epoch int64, message int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.find(task, epoch); a != nil {
		a.releaseMessage = message
		signal(a.changed)
	}
}

// takeRelease returns the message whose commands are to continue in the background, once; then 0.
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

// latestEpoch returns the latest epoch of a task that is held or expected here. An older attempt
// may still be held for the grace while a stream has asked for the next one.
func (l *leases) latestEpoch(task tree.TaskID) (epoch int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.held[task]; a != nil {
		epoch, ok = a.token.Epoch, true
	}
	for _, e := range l.expected[task] {
		epoch, ok = max(epoch, e.epoch), true
	}
	return epoch, ok
}

// attemptKey identifies an attempt.
type attemptKey struct {
	task  tree.TaskID
	epoch int64
}

// longestSilence returns the longest time since a worker last sent a request for an agent's
// attempt.
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

// all returns the held attempts that are not revoked.
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
