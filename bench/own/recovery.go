package own

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/bench/installation"
	"github.com/coppice-run/coppice/bench/process"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// recovery stops the worker that has the runs, and measures how long it takes until each run is
// with another worker.
func recovery(ctx context.Context, l *Lab) error {
	for _, loss := range []struct {
		name   string
		unseen bool // the orchestrator cannot probe the worker
		end    func(*process.Process) error
	}{
		{"kill -9 of a worker", false, (*process.Process).Kill},
		{"kill -9 of a worker that can't be looked at", true, (*process.Process).Kill},
		{"a worker is asked to stop", false, (*process.Process).Stop},
	} {
		var times []time.Duration
		for range l.Repeat {
			err := l.withInstallation(ctx, installation.Options{NoLivenessPort: loss.unseen}, func(i *installation.Installation) error {
				found, err := recoverOnce(ctx, i, loss.end)
				times = append(times, found...)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", loss.name, err)
			}
		}
		if err := l.reportTimes(loss.name+": running elsewhere", times); err != nil {
			return err
		}
	}
	return nil
}

// recoverOnce fills the slots of one worker, starts a second one and ends the first. Times are
// those of this machine's clock.
func recoverOnce(ctx context.Context, i *installation.Installation, end func(*process.Process) error) ([]time.Duration, error) {
	const runs = 15 // in addition to the root, which parks
	s, err := i.Open(ctx, installation.Parent, fmt.Sprintf("slow-fan %d 10m", runs))
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	first, again := make(chan time.Time, runs), make(chan time.Time, runs)
	watched := make(chan error, 1)
	go func() {
		watched <- i.Follow(watching, &pb.WatchSessionRequest{SessionId: s.GetId()}, func(e *pb.Event) bool {
			switch d := e.GetDispatched(); {
			case d == nil || e.GetTaskId() == s.GetRootTaskId():
			case d.GetEpoch() == 1:
				first <- e.GetTime().AsTime()
			default:
				again <- e.GetTime().AsTime()
			}
			return len(again) < runs
		})
	}()
	for range runs {
		select {
		case <-first:
		case err := <-watched:
			return nil, errors.Join(errors.New("not all runs got a worker"), err)
		}
	}
	old := i.Workers()[0]
	if _, err := i.StartWorker(ctx); err != nil {
		return nil, err
	}
	if err := bothConnected(watching, i); err != nil {
		return nil, err
	}
	lost := time.Now()
	if err := end(old); err != nil {
		return nil, err
	}
	if err := <-watched; err != nil {
		return nil, fmt.Errorf("%d of %d runs have another worker: %w", len(again), runs, err)
	}
	var times []time.Duration
	for range runs {
		times = append(times, (<-again).Sub(lost))
	}
	return times, nil
}

// bothConnected waits until the second worker is connected.
func bothConnected(ctx context.Context, i *installation.Installation) error {
	for {
		stats, err := i.Admin().GetStats(ctx, &pb.GetStatsRequest{})
		if err != nil {
			return fmt.Errorf("asking how many workers there are: %w", err)
		}
		if stats.GetWorkers() == 2 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}
