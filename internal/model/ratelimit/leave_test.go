package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/redistest"
)

// limited has a limiter learn that there is a limit, of a few requests a second.
func limited(t *testing.T, g *ratelimit.Limiter, bucket string) {
	t.Helper()
	var passes []*ratelimit.Permit
	for range 10 {
		pass, err := g.Acquire(t.Context(), bucket, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		passes = append(passes, pass)
	}
	for _, pass := range passes[:6] {
		pass.ReportRefusal(t.Context(), 0)
	}
}

// crowd has callers come who wait until ctx ends; most of them are still waiting when
// it returns.
func crowd(ctx context.Context, t *testing.T, g *ratelimit.Limiter, callers int) *sync.WaitGroup {
	t.Helper()
	var came atomic.Int64
	all := new(sync.WaitGroup)
	wait := make(chan struct{})
	for range callers {
		all.Go(func() {
			var once sync.Once
			arrived := func(time.Duration) {
				once.Do(func() {
					if came.Add(1) == int64(callers) {
						close(wait)
					}
				})
			}
			if _, err := g.Acquire(ctx, "b", "", arrived); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			arrived(0)
		})
	}
	<-wait
	return all
}

// kinds are limiters with and without Redis.
func kinds(t *testing.T, do func(t *testing.T, g *ratelimit.Limiter)) {
	t.Helper()
	for name, shared := range map[string]bool{"shared": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := open()
				if shared {
					client, end := embedded(t)
					defer end()
					g.Share(client, named)
				}
				do(t, g)
			})
		})
	}
}

// TestWhoLeavesIsNotWaitedFor: hundreds give up, and who comes then goes at once.
func TestWhoLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, g *ratelimit.Limiter) {
		limited(t, g, "b")
		ctx, cancel := context.WithCancel(t.Context())
		all := crowd(ctx, t, g, 300)
		cancel()
		all.Wait()
		began := time.Now()
		if _, err := g.Acquire(t.Context(), "b", "", nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("one who came after them went after %s", took)
		}
	})
}

// TestWhoStaysMovesUp: of many who wait some give up; the others go in their order, at
// the same rate and sooner.
func TestWhoStaysMovesUp(t *testing.T) {
	t.Parallel()
	// last gives when the last of those went who stay, and how many went at once.
	last := func(t *testing.T, g *ratelimit.Limiter, bucket string, leave bool) (time.Duration, int) {
		limited(t, g, bucket)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var stay []time.Duration
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 120 {
			leaves := leave && i >= 20 && i < 100
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				in := t.Context()
				if leaves {
					in = ctx
				}
				_, err := g.Acquire(in, bucket, "", nil)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					stay = append(stay, time.Since(began))
				} else if !leaves {
					t.Error(err)
				}
			})
		}
		time.AfterFunc(time.Second, cancel)
		all.Wait()
		return slices.Max(stay), most(stay)
	}
	kinds(t, func(t *testing.T, g *ratelimit.Limiter) {
		all, atOnce := last(t, g, "b", false)
		some, someAtOnce := last(t, g, "c", true)
		t.Logf("the last of all went after %s, at most %d a second; of those who stayed after %s, at most %d", all, atOnce, some, someAtOnce)
		if some > all/2 {
			t.Errorf("the last of 40 who stayed went after %s, that of all 120 after %s", some, all)
		}
		if someAtOnce > 2*atOnce {
			t.Errorf("%d went in a second when some had left, %d before", someAtOnce, atOnce)
		}
	})
}

// TestWhoIsGoneIsNotWaitedFor: a process ends without a word, and those who come after
// its callers wait no longer than until that is noticed.
func TestWhoIsGoneIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		client, end := clientOf(t, server)
		defer end()
		g := on(t, client)
		limited(t, g, "b")
		lose(t, server, 300)
		began := time.Now()
		if _, err := g.Acquire(t.Context(), "b", "", nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("one who came after them went after %s", took)
		}
	})
}

// hanging is a Redis that, from a moment on, answers nobody.
type hanging struct{ hangs atomic.Bool }

func (h *hanging) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.hangs.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return next(ctx, cmd)
	}
}

func (h *hanging) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hanging) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestLeavingIsNotHeldUp: who gives up is soon gone, also if Redis can't be told. A run has
// a second for all of its end.
func TestLeavingIsNotHeldUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, end := embedded(t)
		defer end()
		var server hanging
		client.AddHook(&server)
		g := open()
		g.Share(client, named)
		limited(t, g, "b")
		ctx, cancel := context.WithCancel(t.Context())
		all := crowd(ctx, t, g, 30)
		server.hangs.Store(true)
		cancel()
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("they were held for %s", took)
		}
	})
}

// TestLeavingARealRedis: what is told about the wait counts those only who still wait.
func TestLeavingARealRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g := open()
	g.Share(server.Client(), named)
	limited(t, g, "b")
	ctx, cancel := context.WithCancel(t.Context())
	all := crowd(ctx, t, g, 100)
	cancel()
	all.Wait()
	told := time.Duration(0)
	ctx, cancel = context.WithCancel(t.Context())
	_, err := g.Acquire(ctx, "b", "", func(wait time.Duration) {
		told = wait
		cancel()
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if told > 5*time.Second {
		t.Errorf("it was told to wait for %s", told)
	}
	left, err := server.Client().HLen(t.Context(), named("b:heard")).Result()
	if err != nil || left != 0 {
		t.Errorf("%d are still waited for, %v", left, err)
	}
}

// TestAQueueThatHasLostItsFlows: a key of the queue is gone alone, as one that was evicted.
// Who waited has a place again, and is not counted twice.
func TestAQueueThatHasLostItsFlows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, end := embedded(t)
		defer end()
		g := on(t, client)
		pass, err := g.Acquire(t.Context(), "b", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		pass.ReportRefusal(t.Context(), 20*time.Second) // one refusal is no rate
		ctx, cancel := context.WithCancel(t.Context())
		all := crowd(ctx, t, g, 30)
		if err := client.Del(ctx, named("b:flows")).Err(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := g.Acquire(t.Context(), "b", "", nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 21*time.Second {
			t.Errorf("one who came then went after %s", took)
		}
		cancel()
		all.Wait()
	})
}

// TestManyWhoAreGoneAreTakenOutByAndBy: Redis serves nobody else while it looks for them.
func TestManyWhoAreGoneAreTakenOutByAndBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		client, end := clientOf(t, server)
		defer end()
		g := on(t, client)
		limited(t, g, "b")
		lose(t, server, 500)
		left := func() int64 { return client.HLen(t.Context(), named("b:heard")).Val() }
		time.Sleep(time.Minute)
		before := left()
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := g.Acquire(ctx, "b", "", func(time.Duration) { cancel() })
			if cancel(); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			now := left()
			// It asks once to enter, and once to leave.
			if taken := before - now; taken > 2*200 || taken < 200 && now > 0 {
				t.Errorf("%d of %d were taken out at once", taken, before)
			}
			before = now
		}
		if before > 0 {
			t.Errorf("%d are still waited for", before)
		}
	})
}

// lose has so many wait at a bucket in another process, which ends.
func lose(t *testing.T, server *miniredis.Miniredis, n int) {
	t.Helper()
	client, _ := clientOf(t, server)
	gone := open()
	gone.Share(client, named)
	ctx, cancel := context.WithCancel(t.Context())
	all := crowd(ctx, t, gone, n)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	cancel()
	all.Wait()
}
