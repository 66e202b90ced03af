package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

const tenant = "acme"

// A read of a tail is over within a pause, and what was read is dropped once nothing has happened
// for a while.
const (
	breath    = 100 * time.Millisecond
	forgotten = time.Minute
)

// watchedSession is a session with watchers, in a synctest bubble: once all goroutines are blocked, all
// watchers have seen everything or are held.
type watchedSession struct {
	*orchestrator.Service
	t  *testing.T
	id tree.SessionID
}

// settle waits until all goroutines are blocked.
func settle() {
	time.Sleep(breath)
	synctest.Wait()
}

func openSession(t *testing.T, svc *orchestrator.Service) *watchedSession {
	t.Helper()
	session, _, err := svc.CreateSession(t.Context(), tenant, orchestrator.SessionSpec{Text: "go"}, orchestrator.Idempotency{})
	if err != nil {
		t.Fatal(err)
	}
	return &watchedSession{svc, t, session.ID}
}

// commitEvents commits so many events, each in a commit of its own.
func (g *watchedSession) commitEvents(events int) {
	g.t.Helper()
	before := g.last()
	for i := range events {
		if err := g.ChangeSession(g.t.Context(), tenant, g.id, tree.ChangeSession{Title: fmt.Sprintf("%d after %d", i, before)}); err != nil {
			g.t.Fatal(err)
		}
	}
	if g.last() != before+int64(events) {
		g.t.Fatalf("%d events and %d more are %d", before, events, g.last())
	}
}

// last returns the number of the last event.
func (g *watchedSession) last() int64 {
	g.t.Helper()
	session, _, err := g.Session(g.t.Context(), tenant, g.id)
	if err != nil {
		g.t.Fatal(err)
	}
	return session.NextSeq - 1
}

// purge removes all rows of the session, which was deleted.
func (g *watchedSession) purge() {
	g.t.Helper()
	for more := true; more; {
		var err error
		if more, err = g.Store.Purge(g.t.Context()); err != nil {
			g.t.Fatal(err)
		}
	}
}

// testWatch is one watch, and the events that it got.
type testWatch struct {
	t     *testing.T
	after int64
	stop  context.CancelFunc
	gate  chan struct{} // closed: what is sent is taken
	done  chan struct{} // closed: the watch has ended
	idle  *pb.Idle
	err   error

	mu     sync.Mutex
	steps  []*wire.Step
	events []*pb.Event
}

func (g *watchedSession) watch(w orchestrator.Watch) *testWatch {
	v := g.held(w)
	v.take()
	return v
}

// held begins a watch that takes nothing until it is released.
func (g *watchedSession) held(w orchestrator.Watch) *testWatch {
	ctx, stop := context.WithCancel(g.t.Context())
	v := &testWatch{t: g.t, after: w.After, stop: stop, gate: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(v.done)
		v.idle, v.err = g.WatchSession(ctx, tenant, g.id, w, func(step *wire.Step) error { return v.send(ctx, step) })
	}()
	g.t.Cleanup(v.end)
	return v
}

func (v *testWatch) take() { close(v.gate) }

// end cancels the watch.
func (v *testWatch) end() {
	v.stop()
	<-v.done
}

func (v *testWatch) send(ctx context.Context, step *wire.Step) error {
	select {
	case <-v.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	var resp pb.WatchSessionResponse
	if err := proto.Unmarshal(step.Bytes(), &resp); err != nil {
		v.t.Error(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.steps, v.events = append(v.steps, step), append(append(v.events, resp.GetEvent()), resp.GetMore()...)
	return nil
}

// saw checks that the watch got all events up to last, in order.
func (v *testWatch) saw(last int64) {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, e := range v.events {
		if want := v.after + int64(i) + 1; e.GetSeq() != want {
			v.t.Fatalf("event %d came where event %d had to", e.GetSeq(), want)
		}
	}
	if got := v.after + int64(len(v.events)); got != last {
		v.t.Fatalf("events were seen from %d to %d, want to %d", v.after, got, last)
	}
}

// step returns the step that brought an event.
func (v *testWatch) step(seq int64) *wire.Step {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.steps[seq-v.after-1]
}

// unreportedCommits holds commits that the service was not told about.
type unreportedCommits struct {
	mu      sync.Mutex
	commits []store.Commit
}

func (u *unreportedCommits) collect(_ *orchestrator.Service, c store.Commit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(c.Sessions) > 0 {
		u.commits = append(u.commits, c)
	}
}

// take returns all of them.
func (u *unreportedCommits) take() []store.Commit {
	settle()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.commits
}

func TestWatchersShareWhatIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openSession(t, setup(t))
		g.commitEvents(5)
		all := []*testWatch{g.watch(orchestrator.Watch{})}
		for after := range g.last() + 1 { // late ones
			all = append(all, g.watch(orchestrator.Watch{After: after}))
			settle()
			g.commitEvents(2)
		}
		settle()
		shared := g.last()
		g.commitEvents(20)
		settle()
		if g.Tails() != 1 || g.Watchers() != len(all) {
			t.Errorf("%d tails are read for %d watchers, want 1 for %d", g.Tails(), g.Watchers(), len(all))
		}
		for _, v := range all {
			v.saw(g.last())
			for seq := shared + 1; seq <= g.last(); seq++ {
				if v.step(seq) != all[0].step(seq) {
					t.Fatalf("event %d was encoded more than once", seq)
				}
			}
		}
		for _, v := range all {
			v.end()
			if !errors.Is(v.err, context.Canceled) {
				t.Errorf("a watch that was called off ended with %v", v.err)
			}
		}
		if g.Tails() != 0 || g.Watchers() != 0 {
			t.Errorf("%d tails are still read, for %d watchers", g.Tails(), g.Watchers())
		}
		again := g.watch(orchestrator.Watch{After: shared})
		settle()
		again.saw(g.last())
	})
}

// TestASlowWatcherMissesNothing holds some watchers until the tail has dropped events that they
// have not seen, and others for less. Watchers that keep up notice nothing.
func TestASlowWatcherMissesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openSession(t, setup(t))
		fast, end := g.watch(orchestrator.Watch{}), g.last()
		slow, slower := g.held(orchestrator.Watch{After: end}), g.held(orchestrator.Watch{After: end})
		settle()
		g.commitEvents(3)
		settle()
		fast.saw(g.last())
		slow.saw(end)
		slow.take()
		time.Sleep(forgotten)
		slow.saw(g.last())
		g.commitEvents(2)
		time.Sleep(forgotten)
		slower.take()
		settle()
		g.commitEvents(1)
		settle()
		for _, v := range []*testWatch{fast, slow, slower} {
			v.saw(g.last())
		}
		if fast.step(g.last()) != slower.step(g.last()) {
			t.Error("who has caught up does not share again")
		}
	})
}

// TestSeveralEventsInAStep: a watcher that asks for it gets events together, past ones and new
// ones, as many as a step may hold.
func TestSeveralEventsInAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openSession(t, setup(t))
		g.commitEvents(100)
		together, single := g.watch(orchestrator.Watch{SeveralEvents: true}), g.watch(orchestrator.Watch{})
		settle()
		past := g.last()
		together.saw(past)
		single.saw(past)
		if len(together.steps) != 1 || int64(len(single.steps)) != past {
			t.Errorf("%d events came in %d steps together, and in %d otherwise", past, len(together.steps), len(single.steps))
		}
		g.commitEvents(1)
		settle()
		together.saw(g.last())
		single.saw(g.last())
		if len(together.steps) < 2 || int64(len(single.steps)) != g.last() {
			t.Errorf("%d events came in %d steps together, and in %d otherwise", g.last(), len(together.steps), len(single.steps))
		}
		g.commitEvents(2000)
		late := g.watch(orchestrator.Watch{SeveralEvents: true})
		settle()
		late.saw(g.last())
		for i, step := range late.steps {
			if n := step.Len(); n > orchestrator.StepBytes {
				t.Errorf("step %d has %d bytes", i, n)
			}
		}
	})
}

// TestAWatchGoesOnWhereItBroke ends and restarts a watch after each event.
func TestAWatchGoesOnWhereItBroke(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openSession(t, setup(t))
		other := g.watch(orchestrator.Watch{})
		broken := errors.New("the line is dead")
		for seq := range int64(10) {
			g.commitEvents(1)
			settle()
			given := int64(0)
			_, err := g.WatchSession(t.Context(), tenant, g.id, orchestrator.Watch{After: seq}, func(step *wire.Step) error {
				if given > 0 {
					return broken
				}
				given = other.seqOf(step)
				return nil
			})
			if !errors.Is(err, broken) || given != seq+1 {
				t.Fatalf("after %d came %d, then %v", seq, given, err)
			}
		}
	})
}

// seqOf returns the number of the event in a step.
func (v *testWatch) seqOf(step *wire.Step) int64 {
	var resp pb.WatchSessionResponse
	if err := proto.Unmarshal(step.Bytes(), &resp); err != nil {
		v.t.Error(err)
	}
	return resp.GetEvent().GetSeq()
}

// TestOthersCommitsAreSeen: watchers see what is committed, whoever reports it, however often, and
// in whatever order.
func TestOthersCommitsAreSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var news unreportedCommits
		g := openSession(t, setupWith(t, news.collect))
		early := g.watch(orchestrator.Watch{})
		settle()
		end := g.last()
		early.saw(end)
		g.commitEvents(4)
		late := g.watch(orchestrator.Watch{}) // reads what the others have not been told of
		settle()
		late.saw(g.last())
		early.saw(end)
		commits := news.take()
		for _, c := range []store.Commit{commits[len(commits)-1], commits[len(commits)-1], commits[0]} {
			g.Committed(c)
			settle()
			early.saw(g.last())
		}
		late.saw(g.last())
	})
}
