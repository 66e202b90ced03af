//go:build chaos

package chaos_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/coppice-run/coppice/internal/chaos"
)

// pick chooses a link.
type pick = func(*cluster, *rand.Rand) *chaos.Link

// toOrchestrator and the like choose a link of a kind.
func toOrchestrator(c *cluster, rng *rand.Rand) *chaos.Link {
	links := c.workers[rng.IntN(len(c.workers))].links[1:]
	return links[rng.IntN(len(links))]
}

func workersRedis(c *cluster, rng *rand.Rand) *chaos.Link {
	return c.workers[rng.IntN(len(c.workers))].links[0]
}

func orchestratorsRedis(c *cluster, rng *rand.Rand) *chaos.Link {
	return c.orchestrators[rng.IntN(len(c.orchestrators))].links[0]
}

func orchestratorsPostgres(c *cluster, rng *rand.Rand) *chaos.Link {
	return c.orchestrators[rng.IntN(len(c.orchestrators))].links[1]
}

func clients(c *cluster, rng *rand.Rand) *chaos.Link { return c.toClients[rng.IntN(len(c.toClients))] }

// cut breaks the connections of a link.
func cut(name string, of pick) fault {
	return fault{name: name, do: func(_ context.Context, c *cluster, rng *rand.Rand) error {
		of(c, rng).Cut()
		return nil
	}}
}

// spell gives a link some weather for some time, unless another fault has it.
func spell(name string, of pick, low, high time.Duration, w func(*rand.Rand) chaos.Conditions) fault {
	return fault{name: name, do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
		l := of(c, rng)
		for !c.take(l) {
			if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
				return context.Cause(ctx)
			}
			l = of(c, rng)
		}
		defer c.give(l)
		l.Set(w(rng))
		pause(ctx, between(rng, low, high))
		l.Set(chaos.Conditions{})
		return nil
	}}
}

// The weathers.

func hole(*rand.Rand) chaos.Conditions { return chaos.BlackHole() }

func oneWay(rng *rand.Rand) (w chaos.Conditions) {
	w.Block[rng.IntN(2)] = true
	return w
}

func late(rng *rand.Rand) chaos.Conditions {
	return chaos.Conditions{Delay: between(rng, 5*time.Millisecond, 80*time.Millisecond)}
}

func slow(rng *rand.Rand) chaos.Conditions { return chaos.Conditions{Rate: 4_000 + rng.IntN(60_000)} }

func midway(rng *rand.Rand) chaos.Conditions { return chaos.Conditions{Cut: 1 + rng.Int64N(20_000)} }

// How long a spell lasts, about.
const (
	moment = 100 * time.Millisecond
	second = time.Second
)

// ofLinks are the faults of the network.
func ofLinks() []fault {
	long := spell("worker link black-holed until it is noticed", toOrchestrator, 4*second, 8*second, hole)
	long.long = true
	return []fault{
		cut("worker link cut", toOrchestrator),
		spell("worker link cut in the middle of a message", toOrchestrator, moment, 5*moment, midway),
		spell("worker link black-holed", toOrchestrator, moment, 2*second, hole),
		long,
		spell("worker link open in one direction", toOrchestrator, moment, second, oneWay),
		spell("worker link late", toOrchestrator, 3*moment, second, late),
		spell("worker link slow", toOrchestrator, 3*moment, second, slow),
		cut("worker cut from Redis", workersRedis),
		cut("orchestrator cut from Redis", orchestratorsRedis),
		spell("orchestrator's Redis black-holed", orchestratorsRedis, moment, second, hole),
		cut("client link cut", clients),
		spell("client link cut in the middle of a message", clients, moment, 3*moment, midway),
		spell("client link black-holed", clients, moment, second, hole),
	}
}

// ofPostgres are the faults of the database and of the way to it.
func ofPostgres() []fault {
	return []fault{
		{name: "PostgreSQL killed", do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			c.postgres.Kill()
			pause(ctx, between(rng, 0, 3*moment))
			c.postgres.Restart()
			return nil
		}},
		cut("orchestrator cut from PostgreSQL", orchestratorsPostgres),
		{name: "orchestrator's connections to PostgreSQL fall silent", long: true, do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			l := orchestratorsPostgres(c, rng)
			l.Silence()
			pause(ctx, between(rng, 4*second, 8*second))
			l.Cut() // or the server would keep those that nobody uses any more
			return nil
		}},
		spell("PostgreSQL cut off in the middle of a message", orchestratorsPostgres, moment, 3*moment, midway),
		spell("orchestrator's PostgreSQL black-holed", orchestratorsPostgres, moment, second, hole),
		spell("orchestrator's PostgreSQL late", orchestratorsPostgres, 3*moment, second, late),
	}
}
