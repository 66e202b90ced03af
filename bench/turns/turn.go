package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/figures"
	"github.com/coppice-run/coppice/bench/installation"
)

// maxChildren is the maximum number of children of a parent: `coppice dev` allows no more.
const maxChildren = 1_000

// workloads run about the given number of tasks, and return the actual number.
var workloads = map[string]func(ctx context.Context, i *installation.Installation, s *settings, tasks int) (int, error){
	"stream": func(ctx context.Context, i *installation.Installation, s *settings, tasks int) (int, error) {
		return tasks, i.DoMany(ctx, installation.Child, "answer", tasks, s.atOnce)
	},
	"fan":  fanOuts(1),
	"fans": fanOuts(10),
	"rounds": func(ctx context.Context, i *installation.Installation, _ *settings, tasks int) (int, error) {
		for left := tasks; left > 0; left -= maxChildren {
			children := min(left, maxChildren)
			if err := spawnChildren(ctx, i, "rounds", children, children); err != nil {
				return 0, err
			}
		}
		return tasks, nil
	},
}

// fanOuts runs this many concurrent parents, each with as many children as allowed.
func fanOuts(parents int) func(context.Context, *installation.Installation, *settings, int) (int, error) {
	return func(ctx context.Context, i *installation.Installation, _ *settings, tasks int) (int, error) {
		times := max(1, tasks/(parents*maxChildren))
		for range times {
			all, ctx := errgroup.WithContext(ctx)
			for range parents {
				all.Go(func() error { return spawnChildren(ctx, i, "fan", maxChildren, 1) })
			}
			if err := all.Wait(); err != nil {
				return 0, err
			}
		}
		return times * parents * maxChildren, nil
	}
}

// spawnChildren lets a parent spawn children in the given number of answers. It fails if a
// child was refused or failed.
func spawnChildren(ctx context.Context, i *installation.Installation, how string, children, times int) error {
	session, err := i.Do(ctx, installation.Parent, fmt.Sprint(how, " ", children))
	if err != nil {
		return err
	}
	return i.CheckCounts(ctx, session, 1+children, children+times+1)
}

// build is one of the compared builds.
type build struct {
	*installation.Installation

	dir   string
	turns map[string][]turn
	pace  map[string]int // tasks of a turn
}

// turn is one measurement.
type turn struct {
	rate float64                  // tasks per second
	used map[string]time.Duration // CPU time per task, by process
}

func (t turn) sum() (all time.Duration) {
	for _, used := range t.used {
		all += used
	}
	return all
}

func (t turn) line(way, dir string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.used)) {
		parts = append(parts, fmt.Sprintf("%s %.1f", name, figures.Microseconds(t.used[name])))
	}
	return fmt.Sprintf("%-7s %6.0f/s  %6.1f µs CPU (%s)  %s", way, t.rate, figures.Microseconds(t.sum()), strings.Join(parts, ", "), dir)
}

// measure runs a workload on one build for about the duration of a turn.
func (of *build) measure(ctx context.Context, s *settings, way string) (turn, error) {
	const first = 500 // tasks of the warm-up turn
	tasks := cmp.Or(of.pace[way], first)
	before, err := of.cpuTimes()
	if err != nil {
		return turn{}, err
	}
	started := time.Now()
	done, err := workloads[way](ctx, of.Installation, s, tasks)
	if err != nil {
		return turn{}, err
	}
	took := time.Since(started)
	used, err := of.cpuTimes()
	if err != nil {
		return turn{}, err
	}
	for name := range used {
		used[name] = (used[name] - before[name]) / time.Duration(done)
	}
	t := turn{rate: float64(done) / took.Seconds(), used: used}
	if of.pace[way] == 0 {
		of.pace[way] = max(1, int(t.rate*s.during.Seconds()))
	}
	return t, nil
}

// cpuTimes returns the CPU time of each process so far.
func (of *build) cpuTimes() (map[string]time.Duration, error) {
	spent := map[string]time.Duration{}
	for _, p := range of.Processes() {
		used, err := p.CPU()
		if err != nil {
			return nil, err
		}
		spent[p.Name] += used
	}
	return spent, nil
}

// summary returns the medians of a build, and how it compares with the first one: the medians of the
// ratios of their turns in the same round.
func summary(way string, of, first *build) string {
	mine, its := of.turns[way], first.turns[way]
	var rates, costs []float64
	for i := range mine {
		rates = append(rates, mine[i].rate/its[i].rate)
		costs = append(costs, float64(mine[i].sum())/float64(its[i].sum()))
	}
	return fmt.Sprintf("%s  %.3f × the rate for %.3f of the CPU", median(mine).line(way, of.dir), figures.Median(rates), figures.Median(costs))
}

func median(turns []turn) turn {
	m := turn{rate: middle(turns, func(t turn) float64 { return t.rate }), used: map[string]time.Duration{}}
	for name := range turns[0].used {
		m.used[name] = middle(turns, func(t turn) time.Duration { return t.used[name] })
	}
	return m
}

func middle[T float64 | time.Duration](of []turn, value func(turn) T) T {
	var values []T
	for _, t := range of {
		values = append(values, value(t))
	}
	return figures.Median(values)
}
