//go:build chaos

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// errNothingThere says that a fault found nothing to break; it does not count.
var errNothingThere = errors.New("there is nothing to break")

// gremlin breaks one kind of things, in an order and at moments that follow from
// its seed: it shuffles its faults, goes through all, and shuffles again.
type gremlin struct {
	faults []fault
	rng    *rand.Rand
	gap    time.Duration // between faults, on average
	most   int           // how many faults; 0: until it is told to stop
}

// recoveries is how long it took until runs went to workers again.
type recoveries struct {
	mu sync.Mutex
	of map[string][]time.Duration
}

func (r *recoveries) add(name string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[name] = append(r.of[name], took)
}

// havoc is all that gremlins do to an installation.
type havoc struct {
	*cluster
	crowd  *crowd
	counts *counts
	back   *recoveries
}

// run breaks things until ctx ends or the gremlin has had enough.
func (h *havoc) run(ctx context.Context, g *gremlin) {
	var under sync.WaitGroup
	defer under.Wait()
	for n := 0; ctx.Err() == nil; {
		for _, i := range g.rng.Perm(len(g.faults)) {
			if n == g.most && n > 0 || ctx.Err() != nil {
				return
			}
			n++
			f, rng := g.faults[i], rand.New(rand.NewPCG(g.rng.Uint64(), g.rng.Uint64()))
			if f.long {
				under.Go(func() { h.do(ctx, f, rng) })
			} else {
				h.do(ctx, f, rng)
			}
			pause(ctx, time.Duration(float64(g.gap)*min(g.rng.ExpFloat64(), 4)))
		}
	}
}

func (h *havoc) do(ctx context.Context, f fault, rng *rand.Rand) {
	err := f.do(ctx, h.cluster, rng)
	switch {
	case errors.Is(err, errNothingThere):
	case err != nil && ctx.Err() == nil:
		h.surprise(fmt.Sprintf("the fault %q: %v", f.name, err))
	case err == nil:
		h.counts.add(f.name)
	}
}

// recoversWithin is how long a fault may hold everything up once it is mended.
const recoversWithin = 30 * time.Second

// alone makes each fault happen while no other does, and measures how long it
// takes from its end until a run goes to a worker.
func (h *havoc) alone(ctx context.Context, faults []fault, rng *rand.Rand) {
	for _, i := range rng.Perm(len(faults)) {
		if ctx.Err() != nil {
			return
		}
		h.do(ctx, faults[i], rng)
		h.recovered(ctx, faults[i].name, time.Now())
		pause(ctx, max(second/2, faults[i].echo))
	}
}

func (h *havoc) recovered(ctx context.Context, name string, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, recoversWithin)
	defer cancel()
	for {
		at, moved := h.crowd.sightings.last()
		if at.After(since) {
			h.back.add(name, at.Sub(since))
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			h.surprise(fmt.Sprintf("%s after the fault %q was over no run had gone to a worker", recoversWithin, name))
			return
		}
	}
}
