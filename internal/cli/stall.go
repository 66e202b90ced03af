package cli

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// stallDetector detects that a session is stalled: some of its runs wait for a worker, and none is
// with one.
type stallDetector struct {
	since    time.Time // by the local clock; zero: not stalled
	reported bool
}

// check reports, once for each stall, that the session has been stalled for queuedNotice.
func (q *stallDetector) check(f *forest, now time.Time) bool {
	switch {
	case len(f.queued()) == 0:
		*q = stallDetector{}
	case q.since.IsZero():
		q.since = now
	case !q.reported && now.Sub(q.since) >= queuedNotice:
		q.reported = true
		return true
	}
	return false
}

// queued returns the tasks that wait for a worker, if no task is with one.
func (f *forest) queued() (all []*node) {
	for _, n := range f.order {
		switch {
		case n.shell: // it needs no slot
		case n.state == pb.TaskState_TASK_STATE_RUNNING:
			return nil
		case n.state == pb.TaskState_TASK_STATE_PENDING:
			all = append(all, n)
		}
	}
	return all
}

// notTaken is the general reason why a run is queued.
const notTaken = "no worker has taken it yet"

// whyQueued says why no worker takes a run. Clients that may not list workers get a general
// answer, and do not ask again, because orchestrators log each refusal.
func (c *client) whyQueued(ctx context.Context) string {
	if c.mayNotList.Load() {
		return notTaken
	}
	listed, err := c.admin.ListWorkers(ctx, &pb.ListWorkersRequest{})
	if err != nil {
		c.mayNotList.Store(status.Code(err) == codes.PermissionDenied)
		return notTaken
	}
	stats, err := c.admin.GetStats(ctx, &pb.GetStatsRequest{})
	if err != nil {
		return notTaken
	}
	there, slots, running, elsewhere := 0, 0, 0, 0
	for _, w := range listed.GetWorkers() {
		switch {
		case inOtherPool(w, stats):
			elsewhere++
		case !w.GetDraining():
			there, slots, running = there+1, slots+int(w.GetSlots()), running+int(w.GetRunning())
		}
	}
	switch draining := len(listed.GetWorkers()) - there - elsewhere; {
	case there > 0 && running >= slots:
		// Background commands count as running but take no slot, so this is not certain.
		return "it seems that all slots of " + plural(int64(there), "worker") + " are in use"
	case there > 0:
		return notTaken
	case draining > 0:
		return "all connected workers are draining"
	case elsewhere > 0:
		return "no worker of the pool " + safeLine(stats.GetPool()) + " is connected"
	}
	return "no worker is connected"
}
