//go:build chaos

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// fault breaks something, and mends it before it returns, also when ctx ends
// earlier.
type fault struct {
	name string
	do   func(context.Context, *cluster, *rand.Rand) error
	long bool // others go on meanwhile
	// echo is how long its consequences last; when it happens alone, nothing else
	// is broken meanwhile.
	echo time.Duration
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// between chooses a duration.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

// hold takes one of the nodes that nobody else is breaking.
func hold(ctx context.Context, rng *rand.Rand, nodes []*node) (*node, error) {
	for {
		for _, i := range rng.Perm(len(nodes)) {
			if nodes[i].held.TryLock() {
				return nodes[i], nil
			}
		}
		pause(ctx, 10*time.Millisecond)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Bounds on how long a process may take to end when it is asked to.
const (
	workerStops       = 5 * time.Second
	workerDrains      = 30 * time.Second
	orchestratorStops = 10 * time.Second
)

// ofProcesses are the faults of whole processes.
func ofProcesses() []fault {
	return []fault{
		{name: "worker killed", echo: 5 * time.Second, do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			return crash(ctx, rng, c.workers)
		}},
		{name: "worker told to stop", do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			return roll(ctx, c, rng, c.workers, workerStops)
		}},
		{name: "worker drained", long: true, do: drain},
		{name: "worker frozen and thawed", long: true, do: freeze},
		{name: "worker frozen until another one has its runs", long: true, do: freezeUntilReplaced},
		{name: "orchestrator killed", do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			return crash(ctx, rng, c.orchestrators)
		}},
		{name: "orchestrator told to stop", do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			return roll(ctx, c, rng, c.orchestrators, orchestratorStops)
		}},
	}
}

// crash kills a process and starts it again.
func crash(ctx context.Context, rng *rand.Rand, nodes []*node) error {
	n, err := hold(ctx, rng, nodes)
	if err != nil {
		return err
	}
	defer n.held.Unlock()
	if err := n.kill(); err != nil {
		return err
	}
	pause(ctx, between(rng, 0, 200*time.Millisecond))
	return n.start()
}

// roll asks a process to stop and starts it again.
func roll(ctx context.Context, c *cluster, rng *rand.Rand, nodes []*node, most time.Duration) error {
	n, err := hold(ctx, rng, nodes)
	if err != nil {
		return err
	}
	defer n.held.Unlock()
	if _, err := n.stop(most); err != nil {
		c.surprise(err.Error())
	}
	return n.start()
}

// drain has a worker finish what it has and end; whoever runs it starts it again.
func drain(ctx context.Context, c *cluster, rng *rand.Rand) error {
	n, err := hold(ctx, rng, c.workers)
	if err != nil {
		return err
	}
	defer n.held.Unlock()
	pid, ended := n.process()
	asking, cancel := context.WithTimeout(ctx, workerStops)
	defer cancel()
	admin := pb.NewAdminServiceClient(c.reader)
	listed, err := admin.ListWorkers(asking, &pb.ListWorkersRequest{})
	if err != nil {
		return errNothingThere // no orchestrator could say
	}
	for _, w := range listed.GetWorkers() {
		if !isOf(w.GetId(), pid) {
			continue
		}
		if _, err := admin.DrainWorker(asking, &pb.DrainWorkerRequest{WorkerId: w.GetId()}); err != nil {
			return errNothingThere
		}
		select {
		case <-ended:
			return nil
		case <-time.After(workerDrains):
			return fmt.Errorf("%s was drained and had not ended after %s", n.name, workerDrains)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errNothingThere
}

// ofRedis are the faults of Redis and of what is kept there.
func ofRedis() []fault {
	return []fault{
		{name: "Redis killed", do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			c.redis.Kill()
			pause(ctx, between(rng, 0, 500*time.Millisecond))
			c.redis.Restart()
			return nil
		}},
		{name: "Redis frozen", do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			c.redis.Freeze()
			pause(ctx, between(rng, 100*time.Millisecond, time.Second))
			c.redis.Thaw()
			return nil
		}},
		{name: "FLUSHALL", do: func(ctx context.Context, c *cluster, _ *rand.Rand) error {
			return c.direct.FlushAll(ctx).Err()
		}},
		{name: "SCRIPT FLUSH", do: func(ctx context.Context, c *cluster, _ *rand.Rand) error {
			return c.direct.ScriptFlush(ctx).Err()
		}},
		{name: "stream entries deleted", do: onStream(func(ctx context.Context, r *redis.Client, stream string, rng *rand.Rand) error {
			entries, err := r.XRangeN(ctx, stream, "-", "+", 50).Result()
			if err != nil {
				return err
			}
			var ids []string
			for _, e := range entries {
				if rng.IntN(2) == 0 {
					ids = append(ids, e.ID)
				}
			}
			if len(ids) == 0 {
				return nil
			}
			return r.XDel(ctx, stream, ids...).Err()
		})},
		{name: "consumer group destroyed", do: onStream(func(ctx context.Context, r *redis.Client, stream string, _ *rand.Rand) error {
			groups, err := r.XInfoGroups(ctx, stream).Result()
			if err != nil || len(groups) == 0 {
				return err
			}
			return r.XGroupDestroy(ctx, stream, groups[0].Name).Err()
		})},
		{name: "stream deleted", do: onStream(func(ctx context.Context, r *redis.Client, stream string, _ *rand.Rand) error {
			return r.Del(ctx, stream).Err()
		})},
		{name: "Redis refuses writes", do: func(ctx context.Context, c *cluster, rng *rand.Rand) error {
			if err := c.direct.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
				return err
			}
			pause(ctx, between(rng, 100*time.Millisecond, time.Second))
			return c.direct.ConfigSet(context.WithoutCancel(ctx), "maxmemory", "0").Err()
		}},
	}
}

// onStream does something to a dispatch stream, if there is one.
func onStream(do func(context.Context, *redis.Client, string, *rand.Rand) error) func(context.Context, *cluster, *rand.Rand) error {
	return func(ctx context.Context, c *cluster, rng *rand.Rand) error {
		streams, _, err := c.direct.ScanType(ctx, 0, "coppice:*", 1000, "stream").Result()
		if err != nil {
			return fmt.Errorf("looking for streams: %w", err)
		}
		if len(streams) == 0 {
			return errNothingThere
		}
		err = do(ctx, c.direct, streams[rng.IntN(len(streams))], rng)
		if redis.HasErrorPrefix(err, "ERR no such key") {
			return errNothingThere
		}
		return err
	}
}

// awaitHealthy waits until a server says that it serves.
func awaitHealthy(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil && resp.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause(ctx, 10*time.Millisecond)
	}
}
