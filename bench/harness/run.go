// Package harness runs systems one after another, in several rounds, and measures their cost
// from outside.
package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/bench/services"
)

// Config says what to measure. Empty lists of names mean all.
type Config struct {
	Binaries  string // directory of the systems' programs
	Systems   []string
	Workloads []string
	Sizes     []int // of fan-outs, ascending
	Rounds    int
	Seed      uint64 // of the random order of the systems
	// Patience bounds a fan-out. One that would exceed it, judging by the smaller one before, is
	// skipped.
	Patience time.Duration
	// Target is how long a workload without a fixed size should take.
	Target time.Duration
	Log    *slog.Logger
	// Samples gets each sample as a line of JSON. Optional.
	Samples io.Writer
}

// restartDelay lets the machine settle between two systems.
const restartDelay = 300 * time.Millisecond

// Run measures, and returns all samples. A system that fails is skipped in that round, with the
// reason recorded, and makes Run return an error at the end.
func Run(ctx context.Context, c Config) ([]Sample, error) {
	chosen, err := choose(c.Systems)
	if err != nil {
		return nil, err
	}
	for _, w := range c.Workloads {
		if !slices.Contains(Workloads(), w) {
			return nil, fmt.Errorf("there is no workload %q", w)
		}
	}
	cluster, err := services.NewCluster()
	if err != nil {
		return nil, err
	}
	samples, err := c.rounds(ctx, chosen, cluster)
	return samples, errors.Join(err, cluster.Remove())
}

func (c Config) rounds(ctx context.Context, chosen []entry, cluster *services.Cluster) ([]Sample, error) {
	var samples []Sample
	var failed []error
	// Each round has its own order, so that no system always follows the same one.
	shuffle := rand.New(rand.NewPCG(c.Seed, 0)) //nolint:gosec // no secret
	for round := range c.Rounds {
		order := slices.Clone(chosen)
		shuffle.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		for _, e := range order {
			found, err := c.measure(ctx, e, round, cluster)
			if err != nil && ctx.Err() == nil {
				c.Log.ErrorContext(ctx, "a system failed", slog.String("system", e.name), slog.Any("error", err))
				found = append(found, Sample{System: e.name, Round: round + 1, Skipped: firstLine(err)})
				failed = append(failed, fmt.Errorf("%s, round %d: %s", e.name, round+1, firstLine(err)))
			}
			samples = append(samples, found...)
			if err := c.write(found); err != nil {
				return samples, err
			}
			if ctx.Err() != nil {
				return samples, context.Cause(ctx)
			}
		}
	}
	return samples, errors.Join(failed...)
}

// firstLine returns the first line of an error; the log has the rest.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (c Config) write(samples []Sample) error {
	if c.Samples == nil {
		return nil
	}
	lines := json.NewEncoder(c.Samples)
	for _, s := range samples {
		if err := lines.Encode(s); err != nil {
			return fmt.Errorf("writing samples: %w", err)
		}
	}
	return nil
}

func (c Config) wants(w Workload) bool {
	return len(c.Workloads) == 0 || slices.Contains(c.Workloads, string(w))
}

// measure runs all workloads of one system once.
func (c Config) measure(ctx context.Context, e entry, round int, cluster *services.Cluster) (_ []Sample, err error) {
	began := time.Now()
	i, err := launch(ctx, e, cluster)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, i.close())
		time.Sleep(restartDelay)
	}()
	m := &meter{config: c, system: e.name, round: round, on: i}
	err = m.all(ctx, e)
	c.Log.InfoContext(ctx, "measured", slog.String("system", e.name), slog.Int("round", round+1),
		slog.String("took", time.Since(began).Round(time.Second/10).String()))
	return m.samples, err
}
