package orchestrator

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// An attempt that is revoked before its stream knows that it has it is over as soon as it is held.
// An attempt that was asked for twice is expected until both requests are settled.
func TestExpectedAttempts(t *testing.T) {
	t.Parallel()
	task := tree.TaskID{1}
	for name, c := range map[string]struct {
		revoked int64
		gone    bool
	}{
		"ended": {revoked: 3, gone: true}, "an older delivery ended": {revoked: 2}, "nothing ended": {},
	} {
		l, look, a := newLeases(), make(chan struct{}, 1), &lease{task: task, token: tree.Token{Epoch: 3}}
		first, second := l.expect(task, 3), l.expect(task, 3)
		l.revoke(tree.SessionID{}, task, c.revoked)
		l.add(a, first, look)
		if got := l.isRevoked(a); got != c.gone || len(look) == 1 != c.gone {
			t.Errorf("%s: it is gone: %v, looks: %d", name, got, len(look))
		}
		l.settle(first)
		l.drop(a)
		if epoch, expected := l.latestEpoch(task); epoch != 3 || !expected {
			t.Errorf("%s: the other one is expected as %d, %v", name, epoch, expected)
		}
		l.settle(second)
		if _, expected := l.latestEpoch(task); expected || len(l.expected) > 0 {
			t.Errorf("%s: it is still expected", name)
		}
	}
}

// If an older attempt is held for the grace and a stream has asked for the next one, the next epoch
// is the latest.
func TestLatestDelivery(t *testing.T) {
	t.Parallel()
	task, l := tree.TaskID{1}, newLeases()
	first := l.expect(task, 1)
	held := &lease{task: task, token: tree.Token{Epoch: 1}}
	l.add(held, first, make(chan struct{}, 1))
	l.settle(first)
	next := l.expect(task, 2)
	if epoch, any := l.latestEpoch(task); epoch != 2 || !any {
		t.Errorf("the latest is %d, %v", epoch, any)
	}
	l.revoke(tree.SessionID{}, task, 2)
	if len(next.revoked) == 0 || l.isRevoked(held) {
		t.Errorf("ended: the next %v, the one before %v", next.revoked, l.isRevoked(held))
	}
}

// A stream that may get any attempt of a session learns which of them were revoked meanwhile.
func TestAnyAttemptIsExpected(t *testing.T) {
	t.Parallel()
	session, task := tree.SessionID{1}, tree.TaskID{1}
	for name, c := range map[string]struct {
		session tree.SessionID
		task    tree.TaskID
		epoch   int64
		gone    bool
	}{
		"it": {session, task, 3, true}, "an older delivery": {session, task, 2, false},
		"another task": {session, tree.TaskID{2}, 3, false}, "of another session": {tree.SessionID{2}, task, 3, false},
	} {
		l, look, a := newLeases(), make(chan struct{}, 1), &lease{session: session, task: task, token: tree.Token{Epoch: 3}}
		e := l.expectAny(session)
		l.revoke(c.session, c.task, c.epoch)
		l.add(a, e, look)
		if got := l.isRevoked(a); got != c.gone || len(look) == 1 != c.gone {
			t.Errorf("%s was ended: it is gone: %v, looks: %d", name, got, len(look))
		}
		l.settle(e)
		if len(l.anyOf)+len(l.expected) > 0 {
			t.Errorf("%s: it is still expected", name)
		}
	}
}

// An attempt that has come back over another stream stays there, however late the broken stream
// learns that it had the attempt.
func TestAnAttemptThatHasComeBack(t *testing.T) {
	t.Parallel()
	task, l := tree.TaskID{1}, newLeases()
	late, again := l.expect(task, 1), l.expect(task, 1)
	first := &lease{task: task, token: tree.Token{Epoch: 1}, attach: 1}
	second := &lease{task: task, token: tree.Token{Epoch: 1}, attach: 2}
	look := make(chan struct{}, 1)
	l.add(second, again, look)
	l.add(first, late, make(chan struct{}, 1))
	l.drop(first)
	if !l.holds(task, 1) {
		t.Error("it is held no longer")
	}
	if l.revoke(tree.SessionID{}, task, 1); len(look) != 1 {
		t.Error("the stream that has it is not told that it was ended")
	}
}

// A stream is idle while it has no attempt. A stream that is not a slot is never idle. An attempt
// that is held for the grace occupies no stream.
func TestIdleStreams(t *testing.T) {
	t.Parallel()
	service := &Service{leases: newLeases()}
	l, c := service.leases, &service.slots
	idle := func(when string, want int) {
		t.Helper()
		if got := c.idle(); got != want {
			t.Errorf("%s: %d streams are idle, want %d", when, got, want)
		}
	}
	stream := func() *slot {
		c.add()
		return &slot{svc: service, state: slotState{slots: c, counted: true}, leaseChanged: make(chan struct{}, 1)}
	}
	carry := func(s *slot, task byte) *lease {
		a := &lease{task: tree.TaskID{15: task}, token: tree.Token{Epoch: 1}}
		e := l.expect(a.task, 1)
		defer l.settle(e)
		if !s.hold(a, e) {
			t.Fatal("the stream takes nothing")
		}
		return a
	}
	first, second := stream(), stream()
	idle("two streams", 2)
	lost := carry(first, 1)
	carry(second, 2)
	idle("both have an attempt", 0)
	first.state.clearLease() // its stream breaks, and the attempt is held
	first.state.uncount()
	first.state.uncount()
	idle("one is gone", 0)
	second.dropAttempt()
	idle("the other has given its back", 1)
	second.dropAttempt()
	second.state.uncount()
	carry(second, 3)
	idle("it carries a command", 0)
	second.dropAttempt()
	l.drop(lost)
	if idle("all is over", 0); c.count() != 0 || len(l.held) != 0 {
		t.Errorf("%d streams and %d attempts are left", c.count(), len(l.held))
	}
}

// An attempt that was granted too late for its stream takes the place of no later one of its task.
func TestALateGrantReplacesNoLaterAttempt(t *testing.T) {
	t.Parallel()
	task, l := tree.TaskID{1}, newLeases()
	later, look := &lease{task: task, token: tree.Token{Epoch: 2}}, make(chan struct{}, 1)
	l.add(later, nil, look)
	late := &lease{task: task, token: tree.Token{Epoch: 1}, attach: 3}
	l.add(late, nil, make(chan struct{}, 1))
	l.drop(late)
	if !l.holds(task, 2) {
		t.Error("the later attempt is not held")
	}
	if l.revoke(tree.SessionID{}, task, 2); !l.isRevoked(later) || len(look) != 1 {
		t.Error("the later attempt does not hear that it was ended")
	}
}

// TestALateAnswerIsNotOfTheNextAttempt: an attempt was revoked while a request of it waited, and the
// slot stood by and has got another run. The outcome of the request does not end that one.
func TestALateAnswerIsNotOfTheNextAttempt(t *testing.T) {
	t.Parallel()
	svc := &Service{leases: newLeases(), backlog: newBacklog()}
	svc.Logger, svc.Now = slog.New(slog.DiscardHandler), time.Now
	last, next := newLease(&tree.Task{ID: tree.TaskID{1}, Epoch: 1}, "", workerInfo{}), newLease(&tree.Task{ID: tree.TaskID{2}, Epoch: 1}, "", workerInfo{})
	l := &slot{svc: svc, state: slotState{lease: next}}
	a := &exchange{req: &pb.WorkRequest{Kind: &pb.WorkRequest_Progress{}}, lease: last, err: tree.ErrStale}
	if responses, err := l.respond(t.Context(), a); err != nil || len(responses) > 0 {
		t.Errorf("the next attempt is answered with %v, %v", responses, err)
	}
	if a.lease = next; l.state.currentLease() != next {
		t.Error("the next attempt is not on the stream any more")
	}
	if _, err := l.respond(t.Context(), a); !errors.Is(err, tree.ErrStale) {
		t.Errorf("a request of its own is answered with %v", err)
	}
}
