package own

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/installation"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

const (
	watchers       = 100
	eventRate      = 2000 // per second
	watchedFor     = 5 * time.Second
	catchUpTimeout = 30 * time.Second // how long late events are waited for
	spawnParents   = 10               // parents of the spawned tasks
)

// watching spawns children at a steady rate and measures the delay of each event at each
// watcher: of one session, with one event per message and with several, and of one session
// among many watched ones.
func watching(ctx context.Context, l *Lab) error {
	for _, c := range []struct {
		sessions int
		several  bool
	}{{1, false}, {1, true}, {10, false}, {10, true}} {
		err := l.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
			return l.watchSessions(ctx, i, c.sessions, c.several)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lagRecorder records what the watchers have seen.
type lagRecorder struct {
	mu     sync.Mutex
	late   []time.Duration
	events atomic.Int64
}

func (l *Lab) watchSessions(ctx context.Context, i *installation.Installation, sessions int, several bool) error {
	var all []*spawnSession
	for range sessions {
		n, err := openSpawnSession(ctx, i)
		if err != nil {
			return err
		}
		all = append(all, n)
	}
	life, err := all[0].eventsPerChild(ctx, i)
	if err != nil {
		return err
	}
	for _, n := range all {
		if err := n.countEvents(ctx, i); err != nil {
			return err
		}
	}
	var sum lagRecorder
	following, stop := context.WithCancel(ctx)
	var open errgroup.Group
	for w := range watchers {
		open.Go(func() error { return sum.watch(following, i, all[w%sessions], several) })
	}
	before, err := cpuTimesOf(i)
	if err != nil {
		stop()
		return err
	}
	started := time.Now()
	spawned, err := spawnSteadily(ctx, i, all, time.Duration(life)*time.Second/eventRate)
	took := time.Since(started)
	due := int64(spawned * life * watchers / sessions)
	for patience := time.Now().Add(catchUpTimeout); sum.events.Load() < due && time.Now().Before(patience); {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	missed := due - sum.events.Load()
	if err := errors.Join(err, open.Wait()); err != nil {
		return err
	}
	if missed != 0 {
		return fmt.Errorf("of %d events %d were not seen", due, missed)
	}
	name := fmt.Sprintf("%d watchers of %d sessions", watchers, sessions)
	if several {
		name += ", several events a message"
	}
	return errors.Join(
		l.Report(name+", events", "/s", float64(spawned*life)/took.Seconds()),
		l.reportTimes(name+", lag", sum.late),
		l.reportSince(before, i, name, spawned))
}

// watch watches one session until it is cancelled.
func (s *lagRecorder) watch(ctx context.Context, i *installation.Installation, n *spawnSession, several bool) error {
	var late []time.Duration
	err := i.Follow(ctx, &pb.WatchSessionRequest{SessionId: n.session.GetId(), AfterSeq: n.seq, SeveralEvents: several}, func(e *pb.Event) bool {
		late = append(late, time.Since(e.GetTime().AsTime()))
		s.events.Add(1)
		return true
	})
	if ctx.Err() == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, late...)
	return nil
}

// spawnSession is a session in which clients spawn.
type spawnSession struct {
	session *pb.Session
	parents []string
	next    int
	seq     int64 // of the last event before the watches start
}

func openSpawnSession(ctx context.Context, i *installation.Installation) (*spawnSession, error) {
	s, err := i.Do(ctx, installation.Parent, fmt.Sprintf("spread %d %s answer", spawnParents, installation.Parent))
	if err != nil {
		return nil, err
	}
	n := &spawnSession{session: s}
	list, err := i.Tasks().ListTasks(ctx, &pb.ListTasksRequest{SessionId: s.GetId(), ParentTaskId: s.GetRootTaskId()})
	if err != nil {
		return nil, fmt.Errorf("listing tasks: %w", err)
	}
	for _, t := range list.GetTasks() {
		n.parents = append(n.parents, t.GetId())
	}
	return n, n.countEvents(ctx, i)
}

// countEvents records the number of events.
func (n *spawnSession) countEvents(ctx context.Context, i *installation.Installation) error {
	got, err := i.Sessions().GetSession(ctx, &pb.GetSessionRequest{SessionId: n.session.GetId()})
	if err != nil {
		return fmt.Errorf("looking at a session: %w", err)
	}
	n.seq = got.GetSession().GetLastSeq()
	return nil
}

// spawn starts a child that answers at once.
func (n *spawnSession) spawn(ctx context.Context, i *installation.Installation, parent string) error {
	_, err := i.Tasks().SpawnTask(ctx, &pb.SpawnTaskRequest{
		SessionId: n.session.GetId(), ParentTaskId: parent, Agent: installation.Child, Prompt: "answer", Description: "child",
	})
	if err != nil {
		return fmt.Errorf("spawning: %w", err)
	}
	return nil
}

// eventsPerChild counts the events of one child.
func (n *spawnSession) eventsPerChild(ctx context.Context, i *installation.Installation) (int, error) {
	if err := n.spawn(ctx, i, n.parents[0]); err != nil {
		return 0, err
	}
	events := 0
	err := i.Follow(ctx, &pb.WatchSessionRequest{SessionId: n.session.GetId(), AfterSeq: n.seq, UntilIdle: true}, func(*pb.Event) bool {
		events++
		return true
	})
	return events, err
}

// spawnSteadily spawns one child after each pause, in one session after another. If the machine
// is too slow, it catches up.
func spawnSteadily(ctx context.Context, i *installation.Installation, all []*spawnSession, pause time.Duration) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	defer calls.Wait()
	begin, count := time.Now(), 0
	for ; ctx.Err() == nil; count++ {
		due := begin.Add(time.Duration(count) * pause)
		if due.Sub(begin) >= watchedFor {
			break
		}
		time.Sleep(time.Until(due))
		n := all[count%len(all)]
		parent := n.parents[n.next%len(n.parents)]
		n.next++
		calls.Go(func() {
			if err := n.spawn(ctx, i, parent); err != nil {
				cancel(err)
			}
		})
	}
	calls.Wait()
	return count, context.Cause(ctx)
}
