// Package governor makes many callers meet a provider's rate limit as a queue.
//
// Providers say that a limit was hit, not where it is. So requests are let through
// freely until one is refused; from then on they go one after another, at the rate at
// which the provider was last seen to take them. Sessions take turns in that, and the
// requests of a session go in the order in which they came. After each refusal the rate
// is lowered, and climbs again slowly while nothing is refused; while the provider asks
// to be left alone, nothing goes. All workers of an installation share what one of them
// has learned, and the queue, in Redis; the rules are in bucket.lua.
//
// Redis is a help here, as everywhere. Without it each process goes on by itself,
// at the rate that was last known and in the order in which requests came, whoever
// they are for, and more are refused.
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

// Limiter lets requests through. It may be used by any number of goroutines.
type Limiter struct {
	log    *slog.Logger
	script *redis.Script

	mu             sync.Mutex
	client         *redis.Client // nil: not shared
	key            func(bucket string) string
	redisDownUntil time.Time // until when Redis is not asked, after a failure
	local          map[string]*localBucket
}

// New makes a governor of this process alone.
func New(log *slog.Logger) *Limiter {
	return &Limiter{log: log, script: redis.NewScript(bucketScript), local: map[string]*localBucket{}}
}

// Share makes it one with all governors on the same Redis; key names a bucket there,
// and what belongs to one: the bucket's name with ":limit", ":queue", ":heard" or ":flows"
// behind it. The client is borrowed.
func (g *Limiter) Share(client *redis.Client, key func(bucket string) string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.client, g.key = client, key
}

// Permit is the permission for one request.
type Permit struct {
	limiter   *Limiter
	bucket    string
	shared    bool
	epoch     int64
	grantedAt int64 // by Redis's clock, in milliseconds
}

// ticket is the place of one who waits: in the queue that all share or, without Redis,
// in that of this process. Who changes from one to the other begins anew there, since
// neither knows how far the other has come. With neither it is no place.
type ticket struct {
	flow       string    // who the request is for, or what it shares with others
	sharedFlow string    // the flow that it waits in while there are many; see bucket.lua
	redisPlace int64     // in the queue that all share
	localPlace time.Time // in that of this process, by its clock; see alone
}

// recheckEvery is how long one who waits trusts what was said about the wait. One who does
// not look for three times as long counts as gone: SILENT in bucket.lua.
const recheckEvery = 5 * time.Second

// Acquire waits until a request to a bucket may be made. flow is who the request is for:
// flows take turns, one request each; of very many some share theirs. waiting, if not nil, is
// told how long that will take as far as is known, each time that is looked at. The error is
// ctx's cause.
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

// sharedFlowCount is how many flows there are for those who come when there are many already.
const sharedFlowCount = 128

// sharedFlowOf is the flow that one belongs to then.
func sharedFlowOf(flow string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(flow)) // which never fails
	return fmt.Sprintf("shared %d", sum.Sum32()%sharedFlowCount)
}

// leave gives up the place of one whose ctx has ended. Where Redis can't be told, it
// finds out by itself after a while.
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

// replyLength is how many numbers the script answers who enters.
const replyLength = 6

// tryAcquire asks Redis, or goes by what is known here, whether a request may go.
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

// ReportRefusal tells that the provider refused the request because of its limit, and
// asked to be left alone for so long; 0 if it did not say.
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

// How long Redis may take, and how long it may hold one who gives up, since a run that was
// cancelled has to be over within a second; how long it is left alone after a failure.
const (
	redisTimeout = time.Second
	leaveTimeout = 300 * time.Millisecond
	redisPause   = time.Second
)

// errNoRedis says that Redis is not there to be asked.
var errNoRedis = errors.New("no Redis")

// runScript runs the script. After a failure Redis is left alone for a while, and then
// asked by one caller before all do.
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
			g.log.WarnContext(ctx, "the rate limit is not shared: Redis failed", "error", err)
		}
		g.redisDownUntil = time.Now().Add(redisPause)
	}
	return got, err
}

// eval runs the script in one way or the other; the client must not repeat it on
// its own.
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
	return nil, errNoRedis // EVAL needs no script to be there
}

// noRetry is a command that the client may not repeat on its own after a failure.
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
