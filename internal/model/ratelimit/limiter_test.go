package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/redistest"
)

func open() *ratelimit.Limiter { return ratelimit.New(slog.New(slog.DiscardHandler)) }

func named(bucket string) string { return "test:" + bucket }

// limit is a provider that takes so many requests a second, and as many at once.
type limit struct {
	mu      sync.Mutex
	rate    float64
	tokens  float64
	at      time.Time
	taken   int
	refused []int         // how many were taken before each refusal
	half    chan struct{} // if not nil, closed when 300 were taken
}

func newLimit(rate float64) *limit { return &limit{rate: rate, tokens: rate, at: time.Now()} }

func (l *limit) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.tokens = min(l.rate, l.tokens+l.rate*now.Sub(l.at).Seconds())
	l.at = now
	if l.tokens < 1 {
		l.refused = append(l.refused, l.taken)
		return false
	}
	l.tokens--
	if l.taken++; l.taken == 300 && l.half != nil {
		close(l.half)
	}
	return true
}

// flood sends callers of some sessions through limiters in turn, each with a number of
// requests that take a while, until all are taken.
func flood(ctx context.Context, t *testing.T, l *limit, callers, requests, sessions int, through ...*ratelimit.Limiter) {
	var all sync.WaitGroup
	for i := range callers {
		g := through[i%len(through)]
		all.Go(func() {
			for done := 0; done < requests; {
				pass, err := g.Acquire(ctx, "b", fmt.Sprint(i%sessions), nil)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(20 * time.Millisecond)
				if !l.take() {
					pass.ReportRefusal(ctx, time.Second)
					continue
				}
				time.Sleep(300 * time.Millisecond)
				done++
			}
		})
	}
	all.Wait()
}

// queue has callers come one after another, a millisecond apart, and gives when each
// went, since the first came.
func queue(t *testing.T, g *ratelimit.Limiter, callers int) []time.Duration {
	t.Helper()
	began := time.Now()
	went := make([]time.Duration, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			if _, err := g.Acquire(t.Context(), "b", "", nil); err != nil {
				t.Error(err)
			}
			went[i] = time.Since(began)
		})
	}
	all.Wait()
	return went
}

// most gives how many went in the second in which most did.
func most(went []time.Duration) int {
	most := 0
	for _, from := range went {
		n := 0
		for _, at := range went {
			if at >= from && at < from+time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// embedded gives a client of a Redis in the test's bubble, and what ends both. The
// client has a connection for everyone: who has to wait for one does so with a timer
// that all bubbles share, which can't be.
func embedded(t *testing.T) (_ *redis.Client, end func()) {
	t.Helper()
	return clientOf(t, miniredis.NewMiniRedis())
}

func clientOf(t *testing.T, server *miniredis.Miniredis) (_ *redis.Client, end func()) {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: "embedded", PoolSize: 2000, DisableIdentity: true, ContextTimeoutEnabled: true,
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return client, func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	}
}

// TestACrowdBecomesAQueue: after a beginning, nearly nobody is refused, and most of
// what the provider takes is used.
func TestACrowdBecomesAQueue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate              float64
		callers, requests int
		workers           int
		sessions          int
		// How many refusals there may be until twice the limit's first ten seconds
		// have been taken, and in a hundred after that.
		first int
	}{
		{rate: 50, callers: 500, requests: 4, workers: 4, sessions: 1, first: 700},
		{rate: 100, callers: 100, requests: 30, workers: 1, sessions: 1, first: 150},
		{rate: 2, callers: 40, requests: 6, workers: 2, sessions: 1, first: 80},
		{rate: 20, callers: 200, requests: 6, workers: 2, sessions: 25, first: 300},
	} {
		t.Run(fmt.Sprintf("%g a second, %d callers", test.rate, test.callers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, end := embedded(t)
				defer end()
				var workers []*ratelimit.Limiter
				for range test.workers {
					g := open()
					g.Share(client, named)
					workers = append(workers, g)
				}
				began := time.Now()
				l := newLimit(test.rate)
				flood(t.Context(), t, l, test.callers, test.requests, test.sessions, workers...)
				took := time.Since(began)
				warm := int(20 * test.rate)
				late := 0
				for _, taken := range l.refused {
					if taken > warm {
						late++
					}
				}
				early := len(l.refused) - late
				used := float64(l.taken) / (test.rate * took.Seconds())
				t.Logf("%d taken in %s, %.0f%% of what was allowed; %d refused at first, %d later",
					l.taken, took.Round(time.Second), 100*used, early, late)
				if early > test.first {
					t.Errorf("%d were refused at first, want at most %d", early, test.first)
				}
				if late*100 > l.taken-warm {
					t.Errorf("%d of %d were refused later", late, l.taken-warm+late)
				}
				if used < 0.5 {
					t.Errorf("only %.0f%% of what was allowed was used", 100*used)
				}
			})
		})
	}
}

// TestTicketsGoInOrder: who came first goes first, whatever the worker.
func TestTicketsGoInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, end := embedded(t)
		defer end()
		g := open()
		g.Share(client, named)
		var passes []*ratelimit.Permit
		for range 10 { // enough to tell that there is a limit
			pass, err := g.Acquire(t.Context(), "b", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			passes = append(passes, pass)
		}
		for _, pass := range passes {
			pass.ReportRefusal(t.Context(), 10*time.Second)
		}
		began := time.Now()
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if _, err := g.Acquire(t.Context(), "b", "", nil); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				if since := time.Since(began); since < 10*time.Second {
					t.Errorf("%d went after %s, while the bucket was closed", i, since)
				}
			})
		}
		all.Wait()
		for i, n := range order {
			if i != n {
				t.Errorf("they went in the order %v", order)
				break
			}
		}
	})
}

// TestAQueueWithoutRedis: who waits goes at its time, one after another, also after the
// bucket was closed.
func TestAQueueWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first, later time.Duration // how long the bucket is closed, before they come and a while after
		want         time.Duration // that the last waits, about
	}{
		"open":              {0, 0, 48 * time.Second},
		"closed":            {time.Minute, 0, 108 * time.Second},
		"closed meanwhile":  {0, time.Minute, 108 * time.Second},
		"closed for longer": {time.Minute, 2 * time.Minute, 178 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := open()
				var passes []*ratelimit.Permit
				for range 2 {
					pass, err := g.Acquire(t.Context(), "b", "", nil)
					if err != nil {
						t.Fatal(err)
					}
					passes = append(passes, pass)
				}
				passes[0].ReportRefusal(t.Context(), test.first) // from now on 2 a second
				const meanwhile = 10*time.Second + 200*time.Millisecond
				opens := test.first
				if test.later > 0 {
					opens = meanwhile + test.later
					time.AfterFunc(meanwhile, func() { passes[1].ReportRefusal(t.Context(), test.later) })
				}
				went := queue(t, g, 100)
				for i, at := range went {
					if i > 0 && at < went[i-1] {
						t.Errorf("%d went after %s, before the one in front of it", i, at)
					}
					if at < opens && (test.first > 0 || at > meanwhile) {
						t.Errorf("%d went after %s, while the bucket was closed", i, at)
					}
				}
				if n := most(went); n > 3 {
					t.Errorf("%d went in a second", n)
				}
				if last := went[len(went)-1]; last < test.want-3*time.Second || last > test.want+3*time.Second {
					t.Errorf("the last went after %s, want about %s", last, test.want)
				}
			})
		})
	}
}

// TestRedisComesBack: who waits without it has to wait with it too.
func TestRedisComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		client, end := clientOf(t, server)
		defer end()
		g := open()
		g.Share(client, named)
		var passes []*ratelimit.Permit
		for range 10 {
			pass, err := g.Acquire(t.Context(), "b", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			passes = append(passes, pass)
		}
		for _, pass := range passes[:5] { // five are taken: five a second
			pass.ReportRefusal(t.Context(), 0)
		}
		if _, err := g.Acquire(t.Context(), "b", "", nil); err != nil {
			t.Fatal(err)
		}
		server.SetError("away")
		time.AfterFunc(8*time.Second, func() { server.SetError("") })
		went := queue(t, g, 100)
		if n := most(went); n > 8 {
			t.Errorf("%d went in a second", n)
		}
		if last := slices.Max(went); last > 40*time.Second {
			t.Errorf("the last went after %s", last)
		}
	})
}

// TestAFewRefusalsMakeNoLimit: a provider that refuses a request in ten, whatever the
// rate, is not asked more slowly for it.
func TestAFewRefusalsMakeNoLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, end := embedded(t)
		defer end()
		g := open()
		g.Share(client, named)
		began := time.Now()
		for i := range 1000 {
			pass, err := g.Acquire(t.Context(), "b", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			if i%10 == 0 {
				pass.ReportRefusal(t.Context(), 0)
			}
		}
		if took := time.Since(began); took > 110*time.Second {
			t.Errorf("a thousand requests of 100 ms took %s", took)
		}
	})
}

func TestWithoutRefusalsNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, end := embedded(t)
		defer end()
		for _, shared := range []bool{false, true} {
			g := open()
			if shared {
				g.Share(client, named)
			}
			began := time.Now()
			for range 1000 {
				if _, err := g.Acquire(t.Context(), "b", "", nil); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("shared %t: a thousand took %s", shared, took)
			}
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := open()
		pass, err := g.Acquire(t.Context(), "b", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		pass.ReportRefusal(t.Context(), time.Hour)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the run is over")
		time.AfterFunc(time.Minute, func() { cancel(why) })
		if _, err := g.Acquire(ctx, "b", "", nil); !errors.Is(err, why) {
			t.Errorf("entered with %v", err)
		}
	})
}

// TestRedisIsAHelp kills Redis among callers who are waiting.
func TestRedisIsAHelp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g := open()
	g.Share(server.Client(), named)
	l := newLimit(200)
	l.half = make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		flood(t.Context(), t, l, 60, 10, 1, g)
	}()
	<-l.half
	server.Kill()
	<-done
	if l.taken != 600 {
		t.Errorf("%d were taken, want 600", l.taken)
	}
	t.Logf("%d were refused", len(l.refused))
}
