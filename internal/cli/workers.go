package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type workersCommand struct {
	List  listWorkersCommand `cmd:"" default:"withargs" help:"List the connected workers and the amount of pending work."`
	Drain drainCommand       `cmd:"" help:"Drain a worker: it takes no new runs, and exits when its current runs have ended."`
}

type listWorkersCommand struct {
	remote
}

// Run lists the workers, and summarises the load.
func (w *listWorkersCommand) Run(ctx context.Context, a *app) error {
	return w.with(func(c *client) error {
		listed, err := c.admin.ListWorkers(ctx, &pb.ListWorkersRequest{})
		if err != nil {
			return during("listing the workers", err)
		}
		stats, err := c.admin.GetStats(ctx, &pb.GetStatsRequest{})
		if err != nil {
			return during("reading the statistics", err)
		}
		if a.json {
			if err := a.printJSON(listed); err != nil {
				return err
			}
			return a.printJSON(stats)
		}
		width := 0
		for _, worker := range listed.GetWorkers() {
			width = max(width, ansi.StringWidth(safeLine(worker.GetId())))
		}
		for _, worker := range listed.GetWorkers() {
			if err := a.printWorker(worker, stats, width); err != nil {
				return err
			}
		}
		return a.print(a.statsText(stats))
	})
}

// printWorker prints one line: id, used slots, age, version, and remarks.
func (a *app) printWorker(w *pb.Worker, stats *pb.GetStatsResponse, width int) error {
	id := safeLine(w.GetId())
	line := fmt.Sprintf("%s  %9s  %7s  %s", a.theme().bold.Render(id)+strings.Repeat(" ", width-ansi.StringWidth(id)),
		fmt.Sprint(w.GetRunning(), " of ", w.GetSlots()),
		durationText(a.now().Sub(w.GetStartTime().AsTime()).Truncate(time.Second)), safeLine(w.GetVersion()))
	if n := len(w.GetReplicaIds()); n > 1 {
		line += fmt.Sprintf("  at %d orchestrators", n)
	}
	if inOtherPool(w, stats) {
		line += "  of pool " + safeLine(w.GetPool())
	}
	if w.GetDraining() {
		line += "  draining"
	}
	return a.print(line)
}

// inOtherPool reports whether a worker gets no runs because it is in another pool. An older
// orchestrator does not report its pool.
func inOtherPool(w *pb.Worker, stats *pb.GetStatsResponse) bool {
	return stats.GetPool() != "" && w.GetPool() != stats.GetPool()
}

// statsText summarises the load and the capacity.
func (a *app) statsText(s *pb.GetStatsResponse) string {
	text := strings.Join([]string{
		plural(int64(s.GetReplicas()), "orchestrator"), plural(int64(s.GetWorkers()), "worker"),
		fmt.Sprintf("%d of %d slots in use", s.GetRunning(), s.GetSlots()), fmt.Sprintf("%d waiting", s.GetQueued()-s.GetHeld()),
	}, a.theme().separator)
	if oldest := s.GetOldestQueuedTime(); oldest != nil {
		text += ", the oldest for " + durationText(a.now().Sub(oldest.AsTime()))
	}
	if held := s.GetHeld(); held > 0 {
		text += a.theme().separator + fmt.Sprintf("%d waiting for others to end", held)
	}
	return text
}

type drainCommand struct {
	remote
	Worker string `arg:"" help:"The worker; the last characters of its id are enough."`
}

// Run drains a worker.
func (d *drainCommand) Run(ctx context.Context, a *app) error {
	return d.with(func(c *client) error {
		listed, err := c.admin.ListWorkers(ctx, &pb.ListWorkersRequest{})
		if err != nil {
			return during("looking for the worker", err)
		}
		id, err := workerOf(listed.GetWorkers(), d.Worker)
		if err != nil {
			return err
		}
		resp, err := c.admin.DrainWorker(ctx, &pb.DrainWorkerRequest{WorkerId: id})
		switch {
		case err != nil:
			return during("draining the worker", err)
		case a.json:
			return a.printJSON(resp)
		}
		return a.print(safeLine(id) + " claims no more runs and ends when its runs have ended")
	})
}

// workerOf finds a worker by its id, which may be short, or by the end of it.
func workerOf(workers []*pb.Worker, name string) (string, error) {
	var found []string
	for _, w := range workers {
		switch {
		case w.GetId() == name:
			return name, nil
		case strings.HasSuffix(w.GetId(), name):
			found = append(found, w.GetId())
		}
	}
	if err := checkSuffix("worker", name); err != nil {
		return "", err
	}
	return single(found, "worker", name)
}
