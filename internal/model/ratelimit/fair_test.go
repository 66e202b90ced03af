package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/redistest"
)

// one is the n-th request of a flow.
type one struct {
	flow string
	n    int
}

// line has requests wait at a bucket and notes in which order they go.
type line struct {
	t    *testing.T
	all  sync.WaitGroup
	mu   sync.Mutex
	went []one
}

// come has so many requests of a flow come, one after another: each waits before the next
// comes. ctx ends them.
func (l *line) come(ctx context.Context, g *ratelimit.Limiter, flow string, many int) {
	for n := range many {
		came := make(chan struct{})
		arrive := sync.OnceFunc(func() { close(came) })
		l.all.Go(func() {
			defer arrive()
			_, err := g.Acquire(ctx, "b", flow, func(time.Duration) { arrive() })
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					l.t.Error(err)
				}
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.went = append(l.went, one{flow, n})
		})
		<-came
	}
}

// gone gives those that have gone so far.
func (l *line) gone() []one {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.went)
}

// count gives how many of a flow are among some.
func count(of []one, flow string) int {
	n := 0
	for _, o := range of {
		if o.flow == flow {
			n++
		}
	}
	return n
}

// shared runs a test on a Redis in its bubble.
func shared(t *testing.T, do func(t *testing.T, g *ratelimit.Limiter, client *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, end := embedded(t)
		defer end()
		g := open()
		g.Share(client, named)
		limited(t, g, "b")
		do(t, g, client)
	})
}

// nothingLeft says that of a queue nothing is kept.
func nothingLeft(t *testing.T, client *redis.Client) {
	t.Helper()
	kept, err := client.Exists(t.Context(), named("b:queue"), named("b:heard"), named("b:flows")).Result()
	if err != nil || kept != 0 {
		t.Errorf("%d keys of the queue are kept, %v", kept, err)
	}
}

// TestASingleRequestIsNotHeldUpByAFlow: one session's single request goes after one or
// two of another session's hundred, with a Redis in the process and with a real one.
func TestASingleRequestIsNotHeldUpByAFlow(t *testing.T) {
	t.Parallel()
	single := func(t *testing.T, g *ratelimit.Limiter, most int) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &line{t: t}
		l.come(ctx, g, "many", 100)
		for range 3 { // it has not used up anything by going
			before := len(l.gone())
			if _, err := g.Acquire(t.Context(), "b", "single", nil); err != nil {
				t.Fatal(err)
			}
			if passed := len(l.gone()) - before; passed > most {
				t.Errorf("%d of the many went before the single one, want at most %d", passed, most)
			}
		}
		cancel()
		l.all.Wait()
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		shared(t, func(t *testing.T, g *ratelimit.Limiter, _ *redis.Client) { single(t, g, 2) })
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		g := open()
		g.Share(server.Client(), named)
		limited(t, g, "b")
		single(t, g, 10) // where time is real, who has waited for it may come a little late
	})
}

// TestFlowsShareEvenly: sessions with many requests have equal shares as long as they wait,
// though all of one came before all of the next. Within a session they go in the order in
// which they came, and asking again keeps the place.
func TestFlowsShareEvenly(t *testing.T) {
	t.Parallel()
	shared(t, func(t *testing.T, g *ratelimit.Limiter, client *redis.Client) {
		many := map[string]int{"first": 60, "second": 50, "third": 20}
		l := &line{t: t}
		for _, flow := range []string{"first", "second", "third"} {
			l.come(t.Context(), g, flow, many[flow])
		}
		began := l.gone()
		l.all.Wait()
		for i := range l.went[len(began):] {
			since, least, most := l.went[len(began):len(began)+i+1], 1000, 0
			for flow, all := range many {
				n := count(since, flow)
				if n+count(began, flow) < all { // else it has its requests through
					least = min(least, n)
				}
				most = max(most, n)
			}
			if least < 1000 && count(since, "third")+count(began, "third") < 20 && most-least > 2 {
				t.Errorf("after %d that went: %v", len(since), since)
				break
			}
		}
		for flow, all := range many {
			var order []int
			for _, o := range l.went {
				if o.flow == flow {
					order = append(order, o.n)
				}
			}
			if len(order) != all || !slices.IsSorted(order) {
				t.Errorf("of %s they went in the order %v", flow, order)
			}
		}
		issued, err := client.HGet(t.Context(), named("b:limit"), "issued").Float64()
		if want := float64(10 + 60 + 50 + 20); err != nil || issued != want {
			t.Errorf("%g tickets were given out, want %g; %v", issued, want, err)
		}
		nothingLeft(t, client)
	})
}

// TestWhoIsGoneTakesNoTurnOfItsFlow: most of a session's requests leave the queue or fall
// silent. The others move up as if those had not been there, and go in turns with those of
// another session.
func TestWhoIsGoneTakesNoTurnOfItsFlow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		silent bool
		most   int // of the other session that may go before the last of this one
	}{
		"leave":   {false, 35}, // those who sleep look again after 5 s
		"silence": {true, 85},  // which is noticed after 15 s or so
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := miniredis.NewMiniRedis()
				client, end := clientOf(t, server)
				defer end()
				lost, _ := clientOf(t, server)
				g, ending := open(), open()
				g.Share(client, named)
				ending.Share(lost, named)
				limited(t, g, "b")
				ctx, cancel := context.WithCancel(t.Context())
				stay, leave := &line{t: t}, &line{t: t}
				stay.come(t.Context(), g, "whole", 150)
				leave.come(ctx, ending, "rest", 100)
				stay.come(t.Context(), g, "rest", 5)
				if test.silent {
					_ = lost.Close()
				}
				cancel()
				leave.all.Wait()
				_ = lost.Close()
				before := stay.gone()
				stay.all.Wait()
				last := slices.IndexFunc(stay.went, func(o one) bool { return o == one{"rest", 4} })
				passed := count(stay.went[:last], "whole") - count(before, "whole")
				t.Logf("%d went before the last of the rest", passed)
				if passed > test.most {
					t.Errorf("%d of the other session went before it, want at most %d", passed, test.most)
				}
				nothingLeft(t, client)
			})
		})
	}
}

// TestOfFlowsThatHaveGoneNothingIsKept: of sessions whose requests have all gone, or
// have left, nothing is kept.
func TestOfFlowsThatHaveGoneNothingIsKept(t *testing.T) {
	t.Parallel()
	shared(t, func(t *testing.T, g *ratelimit.Limiter, client *redis.Client) {
		l := &line{t: t}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 60 {
			in := t.Context()
			if i%3 == 0 {
				in = ctx
			}
			l.come(in, g, fmt.Sprint("session ", i), 1)
		}
		cancel()
		l.all.Wait()
		nothingLeft(t, client)
		fields, err := client.HLen(t.Context(), named("b:limit")).Result()
		if err != nil || fields > 20 {
			t.Errorf("of the limit %d fields are kept, %v", fields, err)
		}
	})
}

// TestOfVeryManyFlowsSomeShareTurns: what a look at the queue costs is bounded. Flows have turns
// of their own as long as there are few.
func TestOfVeryManyFlowsSomeShareTurns(t *testing.T) {
	t.Parallel()
	shared(t, func(t *testing.T, g *ratelimit.Limiter, client *redis.Client) {
		l := &line{t: t}
		ctx, cancel := context.WithCancel(t.Context())
		const few, many, most = 100, 320, 256
		flows := func() []string { return client.HKeys(t.Context(), named("b:flows")).Val() }
		for i := range many {
			if i == few {
				if n := len(flows()); n < few-len(l.gone()) {
					t.Errorf("of %d there are %d flows", few, n)
				}
			}
			in := ctx
			if i%8 == 0 {
				in = t.Context()
			}
			l.come(in, g, fmt.Sprint("session ", i), 1)
		}
		if n := len(flows()); n > most {
			t.Errorf("there are %d flows, want at most %d", n, most)
		}
		cancel()
		l.all.Wait()
		if n := len(l.gone()); n < many/8 {
			t.Errorf("%d went, want %d at least", n, many/8)
		}
		nothingLeft(t, client)
	})
}
