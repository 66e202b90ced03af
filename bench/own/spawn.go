package own

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/figures"
	"github.com/coppice-run/coppice/bench/installation"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// coldStart measures from the start of the process to the first result.
func coldStart(ctx context.Context, l *Lab) error {
	var times []float64
	for range 3 * l.Repeat {
		err := l.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
			if _, err := i.Do(ctx, installation.Child, "answer"); err != nil {
				return err
			}
			times = append(times, figures.Milliseconds(time.Since(i.Orchestrator().Started)))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return l.Report("exec to first result", "ms", times...)
}

// rounds lets a parent spawn one child after another, and measures each complete round:
// spawned, announced, claimed, answered, joined, next answer of the parent stored.
func rounds(ctx context.Context, l *Lab) error {
	const many = 500
	return l.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Parent, "rounds 20"); err != nil { // warm
			return err
		}
		before, err := cpuTimesOf(i)
		if err != nil {
			return err
		}
		s, err := i.Do(ctx, installation.Parent, fmt.Sprint("rounds ", many))
		if err != nil {
			return err
		}
		if err := l.reportSince(before, i, "rounds", many); err != nil {
			return err
		}
		if err := i.CheckCounts(ctx, s, 1+many, 1+2*many); err != nil {
			return err
		}
		var round, joined []time.Duration
		var started time.Time
		err = i.Replay(ctx, s.GetId(), func(e *pb.Event) {
			at := e.GetTime().AsTime()
			switch {
			case e.GetStarted().GetParentId() != "":
				if !started.IsZero() {
					round = append(round, at.Sub(started))
				}
				started = at
			case e.GetCallClosed() != nil:
				joined = append(joined, at.Sub(started))
			}
		})
		return errors.Join(err, l.reportTimes("spawn to spawn of the next child", round), l.reportTimes("spawn to result stored", joined))
	})
}

// fans lets a parent spawn all its children in one answer. 10,000 exceed the limit of an
// answer, so ten parents share them.
func fans(ctx context.Context, l *Lab) error {
	return l.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Parent, "fan 100"); err != nil { // warm
			return err
		}
		for _, fan := range []struct {
			tasks, parents, times int
			prompt                string
		}{
			{100, 1, 3 * l.Repeat, "fan 100"},
			{1_000, 1, l.Repeat, "fan 1000"},
			{10_000, 11, 1, "spread 10 parent fan 1000"},
		} {
			before, err := cpuTimesOf(i)
			if err != nil {
				return err
			}
			var rates []float64
			for range fan.times {
				started := time.Now()
				s, err := i.Do(ctx, installation.Parent, fan.prompt)
				if err != nil {
					return err
				}
				rates = append(rates, float64(fan.tasks)/time.Since(started).Seconds())
				if err := i.CheckCounts(ctx, s, fan.parents+fan.tasks, 2*fan.parents+fan.tasks); err != nil {
					return err
				}
			}
			name := fmt.Sprintf("fan-out of %d", fan.tasks)
			if err := errors.Join(l.Report(name, "tasks/s", rates...), l.reportSince(before, i, name, fan.tasks*fan.times)); err != nil {
				return err
			}
		}
		return nil
	})
}

// sustained keeps many sessions active at the same time.
func sustained(ctx context.Context, l *Lab) error {
	const callers, parents, children = 64, 32, 250
	return l.withInstallation(ctx, installation.Options{Slots: callers}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Parent, "fan 100"); err != nil { // warm
			return err
		}
		tasks := 0
		return errors.Join(
			l.rate(i, "sessions of one task", func() (int, error) {
				var err error
				tasks, err = openFromCallers(ctx, i, callers, 5*time.Second)
				return tasks, err
			}),
			l.rate(i, "sessions over one stream", func() (int, error) {
				return tasks, i.DoMany(ctx, installation.Child, "answer", tasks, callers)
			}),
			l.rate(i, fmt.Sprintf("%d sessions of %d children", parents, children), func() (int, error) {
				return parents * children, concurrently(parents, func(int) error {
					s, err := i.Do(ctx, installation.Parent, fmt.Sprint("fan ", children))
					if err != nil {
						return err
					}
					return i.CheckCounts(ctx, s, 1+children, 2+children)
				})
			}))
	})
}

// openFromCallers runs callers that open sessions one after another, with one call each, and
// returns the number of sessions.
func openFromCallers(ctx context.Context, i *installation.Installation, callers int, during time.Duration) (int, error) {
	var done atomic.Int64
	started := time.Now()
	err := concurrently(callers, func(int) error {
		for time.Since(started) < during {
			if _, err := i.Do(ctx, installation.Child, "answer"); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	return int(done.Load()), err
}

// rate measures the tasks per second of a function, and their cost.
func (l *Lab) rate(i *installation.Installation, name string, do func() (tasks int, err error)) error {
	before, err := cpuTimesOf(i)
	if err != nil {
		return err
	}
	started := time.Now()
	tasks, err := do()
	if err != nil {
		return err
	}
	return errors.Join(
		l.Report(name, "tasks/s", float64(tasks)/time.Since(started).Seconds()),
		l.reportSince(before, i, name, tasks))
}

// concurrently runs a function n times at the same time.
func concurrently(n int, run func(n int) error) error {
	var g errgroup.Group
	for k := range n {
		g.Go(func() error { return run(k) })
	}
	return g.Wait()
}

// deep lets each task wait for a child of its own.
func deep(ctx context.Context, l *Lab) error {
	const depth = 100
	return l.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
		var times, each []float64
		for range l.Repeat {
			started := time.Now()
			s, err := i.Do(ctx, installation.Parent, fmt.Sprint("chain ", depth))
			if err != nil {
				return err
			}
			took := figures.Milliseconds(time.Since(started))
			if err := i.CheckCounts(ctx, s, 1+depth, 1+2*depth); err != nil {
				return err
			}
			times, each = append(times, took), append(each, took/depth)
		}
		return errors.Join(l.Report("chain of 100", "ms", times...), l.Report("chain of 100, each level", "ms", each...))
	})
}

// scale measures whether more workers carry proportionally more runs. The models are so slow
// that the machine is not the bottleneck.
func scale(ctx context.Context, l *Lab) error {
	const (
		slots, rounds = 16, 20
		delay         = time.Second
	)
	alone := math.NaN()
	for _, workers := range []int{1, 2, 4, 8} {
		err := l.withInstallation(ctx, installation.Options{Workers: workers, Slots: slots}, func(i *installation.Installation) error {
			before, err := cpuTimesOf(i)
			if err != nil {
				return err
			}
			// Each session has work for one worker. Only the middle counts, because slots are
			// empty at the start and at the end of a fan-out.
			prompt := fmt.Sprintf("slow-fan %d %s", slots*rounds, delay)
			ends := make(chan time.Time, workers*slots*rounds)
			err = concurrently(workers, func(int) error {
				s, err := i.Do(ctx, installation.Parent, prompt)
				if err != nil {
					return err
				}
				return i.Replay(ctx, s.GetId(), func(e *pb.Event) {
					if e.GetResult() != nil && e.GetTaskId() != s.GetRootTaskId() {
						ends <- e.GetTime().AsTime()
					}
				})
			})
			if err != nil {
				return err
			}
			rate := middleRate(ends)
			if workers == 1 {
				alone = rate
			}
			name := fmt.Sprintf("%d workers of %d slots", workers, slots)
			return errors.Join(l.Report(name, "tasks/s", rate),
				l.Report(name+", of what the slots can carry", "", rate*delay.Seconds()/float64(workers*slots)),
				l.Report(name+", efficiency", "", rate/(alone*float64(workers))),
				l.reportSince(before, i, name, workers*slots*rounds))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// middleRate returns the rate in the middle three fifths.
func middleRate(ends chan time.Time) float64 {
	close(ends)
	var all []time.Time
	for at := range ends {
		all = append(all, at)
	}
	slices.SortFunc(all, time.Time.Compare)
	first, last := len(all)/5, len(all)*4/5
	return float64(last-first) / all[last].Sub(all[first]).Seconds()
}
