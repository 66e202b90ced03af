//go:build chaos

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/chaos"
)

// size is how large a campaign is.
type size struct {
	plan
	shapes                  []string      // of the trees
	clients                 int           // trees that grow at once
	safety                  time.Duration // how long everything is broken
	trees                   int           // that have to end in spite of faults
	faults                  int           // of each gremlin while they grow
	ends                    time.Duration // in which they have to end after the last fault
	rounds                  int           // each with a seed of its own
	alone                   int           // how often each fault happens while no other does
	leastTasks, leastFaults int           // or it proves too little
}

func sizes(t *testing.T) size {
	t.Helper()
	p := plan{postgres: true, orchestrators: 3, workers: 3, slots: 16}
	switch name := os.Getenv("COPPICE_CHAOS_DATABASE"); name {
	case "", "postgres":
	case "sqlite":
		p.postgres, p.orchestrators = false, 1
	default:
		t.Fatalf("there is no database %q", name)
	}
	if n, err := strconv.Atoi(os.Getenv("COPPICE_CHAOS_ORCHESTRATORS")); err == nil {
		p.orchestrators = n
	}
	switch name := os.Getenv("COPPICE_CHAOS"); name {
	case "", "short":
		return size{plan: p, shapes: append(shapes(), lasting), clients: 32, safety: 15 * time.Second, trees: 300, faults: 18, ends: time.Minute, rounds: 2, alone: 1}
	case "long":
		return size{plan: p, shapes: append(shapes(), lasting, "broad", "broad"), clients: 64, safety: time.Minute, trees: 2650, faults: 150,
			ends: time.Minute, rounds: 3, alone: 2, leastTasks: 100_000, leastFaults: 10_000}
	default:
		t.Fatalf("there is no size %q", name)
		return size{}
	}
}

// seeds gives a fixed seed and random ones, or the one that was asked for.
func seeds(t *testing.T, n int) []uint64 {
	t.Helper()
	if asked := os.Getenv("COPPICE_CHAOS_SEED"); asked != "" {
		seed, err := strconv.ParseUint(asked, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	all := []uint64{1}
	for len(all) < n {
		all = append(all, uint64(rand.Uint32()))
	}
	return all
}

// campaign is what all rounds have in common.
type campaign struct {
	size
	bin        string
	counts     *counts
	back       *recoveries
	figures    chaos.Figures
	violations int
	timed      bool // faults happened one at a time: it is told how long they held things up

	mu     sync.Mutex
	failed []string // all that went wrong, once more behind the table
}

// fail says what went wrong, now and behind the table: of a long output often
// only the end is kept.
func (c *campaign) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	what := fmt.Sprintf(format, args...)
	t.Error(what)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed) < mostFailures {
		c.failed = append(c.failed, what)
	}
}

// mostFailures is how many failures are told again.
const mostFailures = 30

// TestCampaign breaks an installation in all ways there are. COPPICE_CHAOS is
// short or long, COPPICE_CHAOS_SEED repeats what a seed did.
func TestCampaign(t *testing.T) {
	c := &campaign{
		size: sizes(t), bin: build(t), counts: newCounts(),
		back: &recoveries{of: map[string][]time.Duration{}},
	}
	began := time.Now()
	all := seeds(t, c.rounds)
	for i, seed := range all {
		p := c.plan
		if i > 0 && i == len(all)-1 {
			p.orchestrators = 1 // what a lone one keeps in memory, several ask the database for
		}
		t.Run(fmt.Sprintf("seed %d: safety", seed), func(t *testing.T) { c.round(t, p, seed, c.breakEverything) })
		t.Run(fmt.Sprintf("seed %d: liveness", seed), func(t *testing.T) { c.round(t, p, seed, c.letEverythingEnd) })
	}
	t.Run("one fault at a time", func(t *testing.T) { c.round(t, c.plan, 1, c.oneAtATime) })
	c.enough(t)
	t.Logf("in %s\n%s", time.Since(began).Round(time.Second), c.table())
}

// enough fails if a fault never happened, or too little did.
func (c *campaign) enough(t *testing.T) {
	t.Helper()
	for _, f := range slices.Concat(c.faultsOf()...) {
		if c.counts.of[f.name] == 0 {
			c.fail(t, "the fault %q never happened", f.name)
		}
	}
	for _, name := range []string{callRepeated, watcherCut, treeCancelled, taskCancelled, taskBacked, interrupted} {
		if c.counts.of[name] == 0 {
			c.fail(t, "the fault %q never happened", name)
		}
	}
	if c.figures.Allowed == 0 || c.figures.Denied == 0 {
		c.fail(t, "%d approvals were given and %d refused, want some of both", c.figures.Allowed, c.figures.Denied)
	}
	if c.figures.MadeWay == 0 {
		c.fail(t, "no run ever made way for others")
	}
	if c.figures.RanOut == 0 {
		c.fail(t, "no budget was ever spent")
	}
	faults := 0
	for _, n := range c.counts.of {
		faults += n
	}
	if os.Getenv("COPPICE_CHAOS_SEED") == "" && (faults < c.leastFaults || c.figures.Tasks < c.leastTasks) {
		c.fail(t, "%d faults and %d tasks, want %d and %d", faults, c.figures.Tasks, c.leastFaults, c.leastTasks)
	}
}

// round runs a part of a campaign on an installation of its own and holds all
// that is known afterwards against the rules.
func (c *campaign) round(t *testing.T, p plan, seed uint64, part func(*testing.T, *havoc, uint64) bool) {
	house := raise(t, c.bin, p)
	if err := house.served(t.Context()); err != nil {
		c.fail(t, "seed %d: %v", seed, err)
		return
	}
	calm, courses := c.undisturbed(t, house)
	crowd := house.crowd(fmt.Sprint(seed), c.counts)
	quiet := part(t, &havoc{cluster: house, crowd: crowd, counts: c.counts, back: c.back}, seed)
	if err := house.rest(t.Context()); err != nil {
		c.fail(t, "seed %d: %v", seed, err)
		return
	}
	c.check(t, house, crowd, courses, quiet)
	c.check(t, house, calm, courses, true)
	for _, s := range slices.Concat(house.surprises, crowd.surprises) {
		c.fail(t, "seed %d: %s", seed, s)
	}
	if t.Failed() {
		t.Logf("to do it again: COPPICE_CHAOS_SEED=%d COPPICE_CHAOS_ORCHESTRATORS=%d make chaos", seed, p.orchestrators)
	}
}

// undisturbed lets one tree of each shape grow before anything is broken.
func (c *campaign) undisturbed(t *testing.T, house *cluster) (*crowd, map[string]*chaos.Trajectory) {
	t.Helper()
	calm := house.crowd("calm", c.counts)
	calm.calm, calm.mischief = true, nothing
	var growing errgroup.Group
	for _, shape := range c.shapes {
		growing.Go(func() error { return calm.grow(t.Context(), rand.New(rand.NewPCG(0, 0)), shape) })
	}
	if err := growing.Wait(); err != nil {
		t.Fatal(err)
	}
	courses := map[string]*chaos.Trajectory{}
	for id, shape := range calm.all() {
		e, err := chaos.NewCollector(house.client, caps()).Collect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		courses[shape] = chaos.TrajectoryOf(e)
		c.heard(t, house, e)
	}
	return calm, courses
}

// hearsWithin is how long a worker may take to be told what a client knows already.
const hearsWithin = 10 * time.Second

// heard waits until the workers have written down all that they were told of a session:
// a fault may keep it from them.
func (c *campaign) heard(t *testing.T, house *cluster, e *chaos.Evidence) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hearsWithin)
	defer cancel()
	e.Calm = true
	for missing := true; missing && ctx.Err() == nil; {
		records, err := chaos.ReadLogs(house.dir)
		if err != nil {
			t.Fatal(err)
		}
		e.Records = chaos.BySession(records)[e.ID]
		missing = slices.ContainsFunc(chaos.Check(e), func(v chaos.Violation) bool { return v.Rule == chaos.Witnessed })
		if missing {
			pause(ctx, hearsWithin/100)
		}
	}
}

// faultsOf gives all faults, by what they break.
func (c *campaign) faultsOf() [][]fault {
	all := [][]fault{ofProcesses(), ofLinks(), ofRedis()}
	if c.postgres {
		all = append(all, ofPostgres())
	}
	return all
}

// gremlins gives those of a seed.
func (c *campaign) gremlins(seed uint64, gap time.Duration, most int) []*gremlin {
	var all []*gremlin
	for i, faults := range c.faultsOf() {
		all = append(all, &gremlin{faults: faults, rng: rand.New(rand.NewPCG(seed, uint64(i))), gap: gap, most: most})
	}
	return all
}

// How often something breaks, for each gremlin.
const (
	safetyGap   = 400 * time.Millisecond
	livenessGap = 500 * time.Millisecond
)

// errOver ends the load of a safety campaign.
var errOver = errors.New("the campaign is over")

// breakEverything breaks what can be broken for some time; trees grow, and many
// do not get far.
func (c *campaign) breakEverything(t *testing.T, h *havoc, seed uint64) bool {
	ctx, stop := context.WithTimeoutCause(t.Context(), c.safety, errOver)
	defer stop()
	var under sync.WaitGroup
	for _, g := range c.gremlins(seed, safetyGap, 0) {
		under.Go(func() { h.run(ctx, g) })
	}
	for i := range c.clients {
		under.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1000+uint64(i)))
			for ctx.Err() == nil {
				if err := h.crowd.grow(ctx, rng, c.shapes[rng.IntN(len(c.shapes))]); err != nil && !errors.Is(err, errOver) {
					return // it is among the surprises
				}
			}
		})
	}
	under.Wait()
	return false
}

// letEverythingEnd breaks things so many times and asks that all trees end.
func (c *campaign) letEverythingEnd(t *testing.T, h *havoc, seed uint64) bool {
	breaking, enough := context.WithCancel(t.Context())
	defer enough()
	growing, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var gremlins, trees sync.WaitGroup
	for _, g := range c.gremlins(seed, livenessGap, c.faults) {
		gremlins.Go(func() { h.run(breaking, g) })
	}
	queue := make(chan int)
	for range c.clients {
		trees.Go(func() {
			for i := range queue {
				rng := rand.New(rand.NewPCG(seed, 2000+uint64(i)))
				if err := h.crowd.grow(growing, rng, c.shapes[i%len(c.shapes)]); err != nil {
					c.fail(t, "seed %d: tree %d did not end: %v", seed, i, err)
				}
			}
		})
	}
	for i := range c.trees {
		queue <- i
	}
	close(queue)
	go func() {
		gremlins.Wait()
		timer := time.AfterFunc(c.ends, func() { stop(fmt.Errorf("%s have passed since the last fault", c.ends)) })
		defer timer.Stop()
		<-growing.Done()
	}()
	trees.Wait()
	enough()
	gremlins.Wait()
	return true
}

// oneAtATime makes each fault happen alone, to see how long each holds things up.
func (c *campaign) oneAtATime(t *testing.T, h *havoc, seed uint64) bool {
	var enough atomic.Bool
	var trees sync.WaitGroup
	for i := range c.clients {
		trees.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 3000+uint64(i)))
			for !enough.Load() {
				if err := h.crowd.grow(t.Context(), rng, c.shapes[rng.IntN(len(c.shapes))]); err != nil {
					return // it is among the surprises
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 4000))
	for range c.alone {
		h.alone(t.Context(), slices.Concat(c.faultsOf()...), rng)
	}
	enough.Store(true)
	trees.Wait()
	c.timed = true
	return true
}

// check collects and examines sessions that were acknowledged.
func (c *campaign) check(t *testing.T, house *cluster, clients *crowd, courses map[string]*chaos.Trajectory, quiet bool) {
	t.Helper()
	records, err := chaos.ReadLogs(house.dir)
	if err != nil {
		t.Fatal(err)
	}
	sorted := chaos.BySession(records)
	violations := chaos.CheckKeys(records)
	var mu sync.Mutex
	var reading errgroup.Group
	reading.SetLimit(4)
	for id, shape := range clients.all() {
		reading.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), c.ends)
			defer cancel()
			e, err := chaos.NewCollector(house.reader, caps()).Collect(ctx, id)
			if err != nil {
				return err
			}
			e.Quiet, e.Calm, e.Records, e.Undisturbed = quiet, clients.calm, sorted[id], courses[shape]
			found, late := chaos.Check(e), chaos.Redeliveries(e, house.killedAt)
			mu.Lock()
			defer mu.Unlock()
			violations = append(violations, found...)
			c.figures.Add(e)
			for _, took := range late {
				if c.timed {
					c.back.add(redelivery, took)
				}
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		c.fail(t, "reading what the sessions came to: %v", err)
	}
	c.violations += len(violations)
	for i, v := range violations {
		if i == 20 {
			c.fail(t, "and %d more", len(violations)-i)
			break
		}
		c.fail(t, "%s", v)
	}
}
