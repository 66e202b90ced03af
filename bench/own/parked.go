package own

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coppice-run/coppice/bench/installation"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// parkedEach is the number of waiting agents in a session, in addition to their parent.
const parkedEach = 1000

// parked measures the cost of parked runs: each has asked for an approval. Then some are
// approved, one after another.
func parked(sessions int) func(context.Context, *Lab) error {
	return func(ctx context.Context, l *Lab) error {
		return l.withInstallation(ctx, installation.Options{Profile: true, Slots: 64}, func(i *installation.Installation) error {
			if _, err := i.Do(ctx, installation.Parent, "fan 1000"); err != nil { // warm
				return err
			}
			heap, memory, err := footprint(ctx, i)
			if err != nil {
				return err
			}
			started := time.Now()
			all, err := park(ctx, i, sessions)
			if err != nil {
				return err
			}
			count := float64(sessions * parkedEach)
			err = errors.Join(
				l.Report("parked", "agents", count),
				l.Report("parking them", "agents/s", count/time.Since(started).Seconds()))
			if err != nil {
				return err
			}
			time.Sleep(settleTime)
			stats, err := i.Admin().GetStats(ctx, &pb.GetStatsRequest{})
			if err != nil {
				return fmt.Errorf("asking how many run: %w", err)
			}
			heapThen, memoryThen, err := footprint(ctx, i)
			if err != nil {
				return err
			}
			err = errors.Join(
				l.Report("slots that are taken", "", float64(stats.GetRunning())),
				l.Report("objects of the orchestrator", "B/agent", float64(heapThen-heap)/count),
				l.Report("memory of the orchestrator", "B/agent", float64(memoryThen-memory)/count),
				l.reportMemory(i, "resident"))
			if err != nil {
				return err
			}
			times, err := wake(ctx, i, all)
			return errors.Join(err, l.reportTimes("approval to dispatch, as a watcher sees it", times))
		})
	}
}

// settleTime is how long agents wait before the memory is measured. It is longer than the
// orchestrator caches sessions with recent events.
const settleTime = 5 * time.Second

// footprint returns the size of the orchestrator's objects, and its total memory.
func footprint(ctx context.Context, i *installation.Installation) (heap, memory int64, err error) {
	heap, err = i.Heap(ctx)
	if err != nil {
		return 0, 0, err
	}
	memory, err = i.Orchestrator().Memory()
	return heap, memory, err
}

// parkTimeout is how long it may take until all agents are parked.
const parkTimeout = 10 * time.Minute

// park opens the sessions and waits until all their agents are parked.
func park(ctx context.Context, i *installation.Installation, sessions int) ([]*pb.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	var all []*pb.Session
	for range sessions {
		s, err := i.Open(ctx, installation.Parent, fmt.Sprintf("spread %d %s ask", parkedEach, installation.Asker))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	for _, s := range all {
		for {
			got, err := i.Sessions().GetSession(ctx, &pb.GetSessionRequest{SessionId: s.GetId()})
			if err != nil {
				return nil, fmt.Errorf("looking at a session: %w", err)
			}
			if now := got.GetSession(); now.GetOpenApprovals() == parkedEach && now.GetTasks().GetWaiting() == parkedEach+1 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return all, nil
}

// wake approves calls in random sessions. It watches one session at a time.
func wake(ctx context.Context, i *installation.Installation, all []*pb.Session) ([]time.Duration, error) {
	const sessions, each = 10, 30
	var times []time.Duration
	for range sessions {
		s := all[rand.IntN(len(all))] //nolint:gosec // any will do
		asked, err := i.Approvals().ListApprovals(ctx, &pb.ListApprovalsRequest{SessionId: s.GetId(), PageSize: each})
		if err != nil {
			return nil, fmt.Errorf("listing approvals: %w", err)
		}
		now, err := i.Sessions().GetSession(ctx, &pb.GetSessionRequest{SessionId: s.GetId()})
		if err != nil {
			return nil, fmt.Errorf("looking at a session: %w", err)
		}
		watching, stop := context.WithCancel(ctx)
		dispatched := make(chan string, 2*each)
		watched := make(chan error, 1)
		go func() {
			watched <- i.Follow(watching, &pb.WatchSessionRequest{SessionId: s.GetId(), AfterSeq: now.GetSession().GetLastSeq()}, func(e *pb.Event) bool {
				if e.GetDispatched() != nil {
					dispatched <- e.GetTaskId()
				}
				return true
			})
		}()
		for _, a := range asked.GetApprovals() {
			took, err := wakeOne(ctx, i, a, dispatched)
			if err != nil {
				stop()
				return nil, errors.Join(err, <-watched)
			}
			times = append(times, took)
		}
		stop()
		<-watched //nolint:errcheck // it was cancelled
	}
	return times, nil
}

func wakeOne(ctx context.Context, i *installation.Installation, a *pb.Approval, dispatched <-chan string) (time.Duration, error) {
	started := time.Now()
	_, err := i.Approvals().DecideApproval(ctx, &pb.DecideApprovalRequest{
		SessionId: a.GetSessionId(), ApprovalId: a.GetId(), Decision: pb.Decision_DECISION_ALLOW,
	})
	if err != nil {
		return 0, fmt.Errorf("approving: %w", err)
	}
	for {
		select {
		case task := <-dispatched:
			if task == a.GetTaskId() {
				return time.Since(started), nil
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Minute):
			return 0, errors.New("an approved run gets no worker")
		}
	}
}
