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

// Governor lets requests through. It may be used by any number of goroutines.
type Governor struct {
	log    *slog.Logger
	script *redis.Script

	mu     sync.Mutex
	client *redis.Client // nil: not shared
	key    func(bucket string) string
	away   time.Time // until when Redis is not asked, after a failure
	alone  map[string]*alone
}

// New makes a governor of this process alone.
func New(log *slog.Logger) *Governor {
	return &Governor{log: log, script: redis.NewScript(bucketScript), alone: map[string]*alone{}}
}

// Share makes it one with all governors on the same Redis; key names a bucket there,
// and what belongs to one: the bucket's name with ":limit", ":queue", ":heard" or ":flows"
// behind it. The client is borrowed.
func (g *Governor) Share(client *redis.Client, key func(bucket string) string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.client, g.key = client, key
}

// Pass is the permission for one request.
type Pass struct {
	governor *Governor
	bucket   string
	shared   bool
	epoch    int64
	at       int64 // by Redis's clock, in milliseconds
}

// ticket is the place of one who waits: in the queue that all share or, without Redis,
// in that of this process. Who changes from one to the other begins anew there, since
// neither knows how far the other has come. With neither it is no place.
type ticket struct {
	flow   string    // who the request is for, or what it shares with others
	shared string    // the flow that it waits in while there are many; see bucket.lua
	number int64     // in the queue that all share
	at     time.Time // in that of this process, by its clock; see alone
}

// lookAgain is how long one who waits trusts what was said about the wait. One who does
// not look for three times as long counts as gone: SILENT in bucket.lua.
const lookAgain = 5 * time.Second

// Enter waits until a request to a bucket may be made. flow is who the request is for:
// flows take turns, one request each; of very many some share theirs. waiting, if not nil, is
// told how long that will take as far as is known, each time that is looked at. The error is
// ctx's cause.
func (g *Governor) Enter(ctx context.Context, bucket, flow string, waiting func(time.Duration)) (*Pass, error) {
	place := &ticket{flow: flow, shared: sharedFlow(flow)}
	for {
		pass := &Pass{governor: g, bucket: bucket}
		wait, err := g.ask(ctx, pass, place)
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
		if err := sleep(ctx, min(wait, lookAgain)); err != nil {
			g.leave(ctx, bucket, place)
			return nil, err
		}
	}
}

// sharedFlows is how many flows there are for those who come when there are many already.
const sharedFlows = 128

// sharedFlow is the flow that one belongs to then.
func sharedFlow(flow string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(flow)) // which never fails
	return fmt.Sprintf("shared %d", sum.Sum32()%sharedFlows)
}

// leave gives up the place of one whose ctx has ended. Where Redis can't be told, it
// finds out by itself after a while.
func (g *Governor) leave(ctx context.Context, bucket string, place *ticket) {
	if place.number != 0 {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
		defer cancel()
		_, _ = g.run(leaving, bucket, "leave", place.flow, place.number)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if own := g.alone[bucket]; own != nil {
		own.leave(place)
	}
}

// answerLength is how many numbers the script answers who enters.
const answerLength = 6

// ask asks Redis, or goes by what is known here, whether a request may go.
func (g *Governor) ask(ctx context.Context, pass *Pass, place *ticket) (wait time.Duration, _ error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	got, err := g.run(ctx, pass.bucket, "enter", place.flow, place.number, place.shared)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.alone[pass.bucket]
	if own == nil {
		own = &alone{}
		g.alone[pass.bucket] = own
	}
	if err != nil || len(got) != answerLength {
		place.number = 0
		return own.enter(time.Now(), place), nil
	}
	place.number, place.at = got[0], time.Time{}
	if got[5] == 1 {
		place.flow = place.shared
	}
	pass.shared, pass.epoch, pass.at = true, got[2], got[4]
	own.learn(float64(got[3]) / 1000)
	return time.Duration(got[1]) * time.Millisecond, nil
}

// Refused tells that the provider refused the request because of its limit, and
// asked to be left alone for so long; 0 if it did not say.
func (p *Pass) Refused(ctx context.Context, after time.Duration) {
	g := p.governor
	if p.shared {
		if _, err := g.run(ctx, p.bucket, "refused", p.epoch, p.at, after.Milliseconds()); err == nil {
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone[p.bucket].refuse(time.Now(), after)
}

// How long Redis may take, and how long it may hold one who gives up, since a run that was
// cancelled has to be over within a second; how long it is left alone after a failure.
const (
	redisPatience = time.Second
	leavePatience = 300 * time.Millisecond
	redisPause    = time.Second
)

// errAlone says that Redis is not there to be asked.
var errAlone = errors.New("no Redis")

// run runs the script. After a failure Redis is left alone for a while, and then
// asked by one caller before all do.
func (g *Governor) run(ctx context.Context, bucket, do string, args ...any) ([]int64, error) {
	g.mu.Lock()
	client, key, failed, now := g.client, g.key, !g.away.IsZero(), time.Now()
	if client == nil || now.Before(g.away) {
		g.mu.Unlock()
		return nil, errAlone
	}
	if failed {
		g.away = now.Add(redisPause)
	}
	g.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	keys := []string{key(bucket + ":limit"), key(bucket + ":queue"), key(bucket + ":heard"), key(bucket + ":flows")}
	got, err := g.eval(asking, client, keys, append([]any{do}, args...))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.away = time.Time{}
	case ctx.Err() == nil:
		if g.away.IsZero() {
			g.log.WarnContext(ctx, "the rate limit is not shared: Redis failed", "error", err)
		}
		g.away = time.Now().Add(redisPause)
	}
	return got, err
}

// eval runs the script in one way or the other; the client must not repeat it on
// its own.
func (g *Governor) eval(ctx context.Context, client *redis.Client, keys []string, args []any) ([]int64, error) {
	for _, how := range [][]any{{"evalsha", g.script.Hash()}, {"eval", bucketScript}} {
		how = append(how, len(keys))
		for _, key := range keys {
			how = append(how, key)
		}
		cmd := redis.NewIntSliceCmd(ctx, append(how, args...)...)
		err := client.Process(ctx, once{cmd})
		if err == nil {
			return cmd.Val(), nil
		}
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return nil, fmt.Errorf("asking the bucket %s: %w", keys[0], err)
		}
	}
	return nil, errAlone // EVAL needs no script to be there
}

// once is a command that the client may not repeat on its own after a failure.
type once struct{ redis.Cmder }

func (once) NoRetry() bool { return true }

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
