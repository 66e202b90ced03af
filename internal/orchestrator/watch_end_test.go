package orchestrator_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestWatchesEndOnceTheSessionIsIdle: only watches with UntilIdle do.
func TestWatchesEndOnceTheSessionIsIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openSession(t, setup(t))
		stays := g.watch(orchestrator.Watch{})
		var ending []*testWatch
		for after := range g.last() + 1 {
			ending = append(ending, g.watch(orchestrator.Watch{After: after, UntilIdle: true}))
		}
		slow := g.held(orchestrator.Watch{UntilIdle: true})
		settle()
		g.commitEvents(2)
		settle()
		for _, v := range ending {
			v.saw(g.last())
			if v.hasEnded() {
				t.Fatalf("a watch ended while a run was pending: %v, %v", v.idle, v.err)
			}
		}
		if _, _, err := g.CancelTask(t.Context(), tenant, g.id, tree.Cancel{Detail: "enough"}); err != nil {
			t.Fatal(err)
		}
		settle()
		slow.take()
		settle()
		ending = append(ending, slow, g.watch(orchestrator.Watch{After: g.last(), UntilIdle: true}))
		for _, v := range ending {
			<-v.done
			v.saw(g.last())
			if v.err != nil || v.idle.GetLastSeq() != g.last() || v.idle.GetCause() != pb.IdleCause_IDLE_CAUSE_DONE ||
				v.idle.GetRoot().GetState() != pb.TaskState_TASK_STATE_CANCELLED {
				t.Errorf("the watch ended with %v, %v", v.idle, v.err)
			}
		}
		stays.saw(g.last())
		if stays.hasEnded() {
			t.Errorf("the other watch ended with %v", stays.err)
		}
	})
}

// hasEnded reports whether the watch has ended.
func (v *testWatch) hasEnded() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// TestWatchesEndWithTheirSession: watchers that keep up see the event of the deletion. Watchers
// that read nothing until all rows are removed learn of it too.
func TestWatchesEndWithTheirSession(t *testing.T) {
	t.Parallel()
	for _, untilIdle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := openSession(t, setup(t))
			w := orchestrator.Watch{UntilIdle: untilIdle}
			begun := g.watch(orchestrator.Watch{})
			end := g.last()
			late := g.held(orchestrator.Watch{After: end})
			fast, slow := g.watch(w), g.held(w)
			settle()
			g.commitEvents(3)
			settle()
			if _, err := g.DeleteSession(t.Context(), tenant, g.id); err != nil {
				t.Fatal(err)
			}
			settle()
			g.purge()
			time.Sleep(forgotten)
			slow.take()
			late.take()
			for _, v := range []*testWatch{begun, fast, slow, late} {
				<-v.done
				if !errors.Is(v.err, tree.ErrNoSession) {
					t.Errorf("the watch ended with %v", v.err)
				}
			}
			for _, v := range []*testWatch{begun, fast} {
				last := v.events[len(v.events)-1]
				v.saw(last.GetSeq())
				if last.GetSessionChanged().GetChange() != pb.SessionChange_SESSION_CHANGE_DELETED {
					t.Errorf("the last event is %v", last)
				}
			}
		})
	}
}

// TestAFailureIsEverybodys: when reading fails, all watchers of the tail get the error. They were
// not told that the session is gone.
func TestAFailureIsEverybodys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var news unreportedCommits
		g := openSession(t, setupWith(t, news.collect))
		all := []*testWatch{g.watch(orchestrator.Watch{}), g.watch(orchestrator.Watch{}), g.watch(orchestrator.Watch{UntilIdle: true})}
		settle()
		end := g.last()
		if _, err := g.DeleteSession(t.Context(), tenant, g.id); err != nil {
			t.Fatal(err)
		}
		g.purge()
		g.Committed(news.take()[0])
		for _, v := range all {
			<-v.done
			v.saw(end)
			if !errors.Is(v.err, tree.ErrNoSession) {
				t.Errorf("the watch ended with %v", v.err)
			}
		}
	})
}

// TestAFailureIsNotForLater: a watcher that comes after a failure gets a new tail, even while
// another watcher has not seen the failure yet.
func TestAFailureIsNotForLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openSession(t, setup(t))
		held := g.held(orchestrator.Watch{After: g.last()})
		settle()
		g.commitEvents(1)
		settle()
		gone := errors.New("the database is gone")
		g.FailTails(gone)
		again := g.watch(orchestrator.Watch{})
		settle()
		g.commitEvents(1)
		settle()
		again.saw(g.last())
		held.take()
		<-held.done
		if !errors.Is(held.err, gone) {
			t.Errorf("the watch ended with %v", held.err)
		}
		g.commitEvents(1)
		settle()
		again.saw(g.last())
	})
}

// TestWatchesEndWhenTheReplicaStops: also watches that always have something to send.
func TestWatchesEndWhenTheReplicaStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openSession(t, setup(t))
		v := g.watch(orchestrator.Watch{Deltas: true})
		settle()
		g.Stop()
		<-v.done
		if !errors.Is(v.err, tree.ErrStopping) {
			t.Errorf("the watch ended with %v", v.err)
		}
		g.Wait()
	})
}
