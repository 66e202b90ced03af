// Package ratelimit queues requests at a provider's rate limit.
//
// Providers report that a limit was hit, but not what the limit is. Requests therefore pass
// freely until one is refused. From then on they go one by one, at the rate that the provider
// last accepted. Each refusal lowers the rate; while there is none, it rises slowly. Nothing
// goes while the provider asks for a pause.
//
// Sessions take turns. The requests of one session go in the order of their arrival. All
// workers of an installation share the rate and the queue in Redis; bucket.lua has the rules.
//
// Redis is optional. Without it, each process continues alone with the last known rate and one
// queue for all sessions in the order of arrival. More requests are refused then.
package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed bucket.lua
var bucketScript string

// Limiter admits requests to providers. It is safe for concurrent use.
type Limiter struct {
	log    *slog.Logger
	script *redis.Script

	mu             sync.Mutex
	client         *redis.Client // nil: the limits are not shared
	key            func(bucket string) string
	redisDownUntil time.Time // after a failure: Redis is not asked before this time
	local          map[string]*localBucket
}

// New returns a limiter that is local to this process.
func New(log *slog.Logger) *Limiter {
	return &Limiter{log: log, script: redis.NewScript(bucketScript), local: map[string]*localBucket{}}
}

// Share connects the limiter to all limiters on the same Redis. key returns the Redis key for a
// bucket name to which ":limit", ":queue", ":heard" or ":flows" has been appended. The caller
// keeps ownership of the client.
func (g *Limiter) Share(client *redis.Client, key func(bucket string) string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.client, g.key = client, key
}

// Permit is the permission to make one request.
type Permit struct {
	limiter   *Limiter
	bucket    string
	shared    bool
	epoch     int64
	grantedAt int64 // by the clock of Redis, in milliseconds
}

// ticket is a request's place in the queue: in the shared queue or, without Redis, in the local
// one. A request that moves from one queue to the other starts anew there, because neither
// queue knows its progress in the other. A ticket that is in neither has no place.
type ticket struct {
	flow       string    // the session of the request, or the shared flow that it waits in
	sharedFlow string    // the flow to use while there are many flows; see bucket.lua
	redisPlace int64     // in the shared queue
	localPlace time.Time // in the local queue, by its clock; see localBucket
}

// recheckEvery is how long a waiting request relies on the last answer before it asks again. A
// request that has not asked for three times as long counts as gone: SILENT in bucket.lua.
const recheckEvery = 5 * time.Second

// Acquire waits until a request to a bucket may be made. flow identifies the session. Flows
// take turns, one request each; if there are very many, some of them share one. waiting may be
// nil; otherwise each check calls it with the currently estimated wait. The error is the cause
// of ctx.
func (g *Limiter) Acquire(ctx context.Context, bucket, flow string, waiting func(time.Duration)) (*Permit, error) {
	place := &ticket{flow: flow, sharedFlow: sharedFlowOf(flow)}
	for {
		pass := &Permit{limiter: g, bucket: bucket}
		wait, err := g.tryAcquire(ctx, pass, place)
		if err != nil {
			g.leave(ctx, bucket, place)
			return nil, err
		}
		if wait == 0 {
			return pass, nil
		}
		if waiting != nil {
			waiting(wait)
		}
		if err := sleep(ctx, min(wait, recheckEvery)); err != nil {
			g.leave(ctx, bucket, place)
			return nil, err
		}
	}
}

// sharedFlowCount is the number of flows that new sessions share while there are many flows.
const sharedFlowCount = 128

// sharedFlowOf returns the shared flow of a session.
func sharedFlowOf(flow string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(flow)) // never fails
	return fmt.Sprintf("shared %d", sum.Sum32()%sharedFlowCount)
}

// leave gives up the place of a request whose ctx has ended. If Redis cannot be told, the place
// expires there.
func (g *Limiter) leave(ctx context.Context, bucket string, place *ticket) {
	if place.redisPlace != 0 {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		_, _ = g.runScript(leaving, bucket, "leave", place.flow, place.redisPlace)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if own := g.local[bucket]; own != nil {
		own.leave(place)
	}
}

// replyLength is how many numbers the script returns for "enter".
const replyLength = 6

// tryAcquire asks Redis whether the request may go, and falls back to the local bucket. It
// returns how long to wait, or 0.
func (g *Limiter) tryAcquire(ctx context.Context, pass *Permit, place *ticket) (wait time.Duration, _ error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	got, err := g.runScript(ctx, pass.bucket, "enter", place.flow, place.redisPlace, place.sharedFlow)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.local[pass.bucket]
	if own == nil {
		own = &localBucket{}
		g.local[pass.bucket] = own
	}
	if err != nil || len(got) != replyLength {
		place.redisPlace = 0
		return own.enter(time.Now(), place), nil
	}
	place.redisPlace, place.localPlace = got[0], time.Time{}
	if got[5] == 1 {
		place.flow = place.sharedFlow
	}
	pass.shared, pass.epoch, pass.grantedAt = true, got[2], got[4]
	own.adoptRate(float64(got[3]) / 1000)
	return time.Duration(got[1]) * time.Millisecond, nil
}

// ReportRefusal records that the provider refused the request because of its rate limit. after
// is the pause that the provider asked for; 0 if it named none.
func (p *Permit) ReportRefusal(ctx context.Context, after time.Duration) {
	g := p.limiter
	if p.shared {
		if _, err := g.runScript(ctx, p.bucket, "refused", p.epoch, p.grantedAt, after.Milliseconds()); err == nil {
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.local[p.bucket].refuse(time.Now(), after)
}

// Limits on Redis: the timeout of a call; the timeout of leaving, which is shorter because a
// cancelled run must end within a second; and the pause after a failure.
const (
	redisTimeout = time.Second
	leaveTimeout = 300 * time.Millisecond
	redisPause   = time.Second
)

// errNoRedis reports that Redis cannot be asked.
var errNoRedis = errors.New("no Redis")

// runScript runs the script. After a failure it pauses, and then lets one caller try Redis
// before all others do.
func (g *Limiter) runScript(ctx context.Context, bucket, do string, args ...any) ([]int64, error) {
	g.mu.Lock()
	client, key, failed, now := g.client, g.key, !g.redisDownUntil.IsZero(), time.Now()
	if client == nil || now.Before(g.redisDownUntil) {
		g.mu.Unlock()
		return nil, errNoRedis
	}
	if failed {
		g.redisDownUntil = now.Add(redisPause)
	}
	g.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	keys := []string{key(bucket + ":limit"), key(bucket + ":queue"), key(bucket + ":heard"), key(bucket + ":flows")}
	got, err := g.eval(asking, client, keys, append([]any{do}, args...))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.redisDownUntil = time.Time{}
	case ctx.Err() == nil:
		if g.redisDownUntil.IsZero() {
			g.log.WarnContext(ctx, "Redis failed; rate limits are not shared between workers until it is back", "error", err)
		}
		g.redisDownUntil = time.Now().Add(redisPause)
	}
	return got, err
}

// eval sends the script by its hash and, if Redis does not have it, as text. The client must
// not retry on its own.
func (g *Limiter) eval(ctx context.Context, client *redis.Client, keys []string, args []any) ([]int64, error) {
	for _, how := range [][]any{{"evalsha", g.script.Hash()}, {"eval", bucketScript}} {
		how = append(how, len(keys))
		for _, key := range keys {
			how = append(how, key)
		}
		cmd := redis.NewIntSliceCmd(ctx, append(how, args...)...)
		err := client.Process(ctx, noRetry{cmd})
		if err == nil {
			return cmd.Val(), nil
		}
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return nil, fmt.Errorf("asking the bucket %s: %w", keys[0], err)
		}
	}
	return nil, errNoRedis // EVAL does not need a loaded script
}

// noRetry is a command that the client does not retry after a failure.
type noRetry struct{ redis.Cmder }

func (noRetry) NoRetry() bool { return true }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
