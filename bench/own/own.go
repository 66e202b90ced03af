// Package own has the measurements of Coppice alone: the cost of a tree, the latency of a
// spawn, the cost of a parked run, the time until a lost run continues. Each is a workload on
// its own installation.
//
// Times of steps inside a tree are differences between times of events. The orchestrator's
// clock sets them when it decides, in microseconds, so there is one clock and no effect of a
// watcher. What a client sees is measured with the client's clock.
package own

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/figures"
	"github.com/coppice-run/coppice/bench/installation"
	"github.com/coppice-run/coppice/bench/process"
)

// Workload is one measurement, and the kinds of installations that it is for.
type Workload struct {
	Name  string
	About string
	Kinds []installation.Kind
	Run   func(ctx context.Context, l *Lab) error
}

var (
	both     = installation.Kinds()
	separate = []installation.Kind{installation.Separate}
)

// Workloads returns all workloads, in the order in which they run.
func Workloads() []Workload {
	return []Workload{
		{"cold", "from exec to the first result", []installation.Kind{installation.Embedded}, coldStart},
		{"rounds", "one child after another of a running parent", both, rounds},
		{"fan", "children at once, joined", both, fans},
		{"sustained", "many sessions at once", both, sustained},
		{"deep", "a chain of 100 tasks", separate, deep},
		{"size", "what a task costs in trees of different size", both, sizes},
		{"trips", "bytes, round trips and transactions that write, of a task", separate, measureTrips},
		{"statements", "what PostgreSQL does for a task", separate, statements},
		{"transcript", "100 calls with results of 5 KB", both, transcript},
		{"children", "what is stored of 1,000 children", both, children},
		{"watch", "how late 100 watchers are at 2,000 events/s", both, watching},
		{"recovery", "a run goes on elsewhere", separate, recovery},
		{"scale", "more workers, of models that take a second", separate, scale},
		{"parked-10k", "10,000 agents that wait for approval", separate, parked(10)},
		{"parked-100k", "100,000 agents that wait for approval", separate, parked(100)},
	}
}

// Figure is one measured quantity, with one or several values.
type Figure struct {
	Workload     string            `json:"workload"`
	Installation installation.Kind `json:"installation"`
	Name         string            `json:"name"`
	Unit         string            `json:"unit"`
	Values       []float64         `json:"values"`
}

// Lab is the environment of a workload.
type Lab struct {
	Kind     installation.Kind
	Binaries *installation.Binaries
	Repeat   int // repetitions of short measurements
	// Profiles is the directory for profiles of our processes; empty: none.
	Profiles string

	workload string
	report   func(Figure) error
}

// Report reports a figure.
func (l *Lab) Report(name, unit string, values ...float64) error {
	return l.report(Figure{l.workload, l.Kind, name, unit, values})
}

// reportTimes reports the median and the 99th percentile of durations, in milliseconds.
func (l *Lab) reportTimes(name string, times []time.Duration) error {
	if len(times) == 0 {
		return fmt.Errorf("%s: nothing was measured", name)
	}
	return errors.Join(
		l.Report(name+" p50", "ms", figures.Milliseconds(figures.Quantile(times, 0.5))),
		l.Report(name+" p99", "ms", figures.Milliseconds(figures.Quantile(times, 0.99))))
}

// start starts an installation of the measured kind.
func (l *Lab) start(ctx context.Context, o installation.Options) (*installation.Installation, error) {
	o.Kind, o.Binaries = l.Kind, l.Binaries
	o.Workers, o.Slots = cmp.Or(o.Workers, 1), cmp.Or(o.Slots, 16)
	o.Profile = o.Profile || l.Profiles != ""
	return installation.Start(ctx, o)
}

// withInstallation runs measure with an installation.
func (l *Lab) withInstallation(ctx context.Context, o installation.Options, measure func(i *installation.Installation) error) error {
	i, err := l.start(ctx, o)
	if err != nil {
		return err
	}
	var profiles errgroup.Group
	if l.Profiles != "" {
		for _, p := range append(i.Workers(), i.Orchestrator()) {
			profiles.Go(func() error { return l.profile(ctx, i, p) })
		}
	}
	err = measure(i)
	return errors.Join(err, profiles.Wait(), i.Stop())
}

// profile saves a profile of the first seconds of a process.
func (l *Lab) profile(ctx context.Context, i *installation.Installation, p *process.Process) error {
	page, err := i.FetchProfile(ctx, p, "profile?seconds=10")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(l.Profiles, fmt.Sprintf("%s-%s-%s-*.pprof", l.workload, l.Kind, p.Name))
	if err != nil {
		return fmt.Errorf("keeping a profile: %w", err)
	}
	_, err = file.Write(page)
	return errors.Join(err, file.Close())
}

// Run runs the chosen workloads on the kinds of installations that they are for. A failed
// workload does not stop the others.
func Run(ctx context.Context, lab Lab, chosen []Workload, kinds []installation.Kind, out io.Writer) ([]Figure, error) {
	var measured []Figure
	var failed []error
	lines := json.NewEncoder(out)
	lab.report = func(f Figure) error {
		measured = append(measured, f)
		return lines.Encode(f)
	}
	for _, w := range chosen {
		for _, kind := range kinds {
			if !slices.Contains(w.Kinds, kind) || ctx.Err() != nil {
				continue
			}
			l := lab
			l.Kind, l.workload = kind, w.Name
			if err := w.Run(ctx, &l); err != nil {
				failed = append(failed, fmt.Errorf("%s on %s: %w", w.Name, kind, err))
			}
		}
	}
	return measured, errors.Join(append(failed, ctx.Err())...)
}
