package ratelimit_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/model/ratelimit"
)

// stepBack sets the clock of a bucket's Redis back, by moving ahead all that it has noted.
func stepBack(t *testing.T, client *redis.Client, by time.Duration) {
	t.Helper()
	for _, field := range []string{"at", "since", "closed", "looked", "counted"} {
		if err := client.HIncrByFloat(t.Context(), named("b:limit"), field, by.Seconds()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for who := range client.HGetAll(t.Context(), named("b:heard")).Val() {
		if err := client.HIncrByFloat(t.Context(), named("b:heard"), who, by.Seconds()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// goes has a request go, and gives how long that took. Who looks too often is stopped.
func goes(t *testing.T, g *ratelimit.Limiter) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, looked := time.Now(), 0
	if _, err := g.Acquire(ctx, "b", "", func(time.Duration) {
		if looked++; looked == 1000 {
			cancel()
		}
	}); err != nil {
		t.Fatalf("it looked %d times: %v", looked, err)
	}
	return time.Since(began)
}

// complaints fail a test with what is logged: that Redis has failed.
type complaints struct{ t *testing.T }

func (c complaints) Write(p []byte) (int, error) {
	c.t.Errorf("logged %s", p)
	return len(p), nil
}

// on makes a limiter that may not go alone.
func on(t *testing.T, client *redis.Client) *ratelimit.Limiter {
	t.Helper()
	g := ratelimit.New(slog.New(slog.NewTextHandler(complaints{t}, nil)))
	g.Share(client, named)
	return g
}

// TestAClockThatStepsBack: as after a failover of Redis to a machine whose clock is behind.
// What is known of the limit holds as if no time had passed.
func TestAClockThatStepsBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		calm    time.Duration // since the limit was found
		refused bool          // just before the step
		asks    time.Duration // to be left alone then
		by      time.Duration
		most    time.Duration // until one goes
	}{
		"a little":              {0, true, 0, 4 * time.Second, 3 * time.Second},
		"an hour":               {0, true, 0, time.Hour, 3 * time.Second},
		"after a calm":          {10 * time.Minute, false, 0, 2 * time.Minute, 3 * time.Second},
		"an hour, after a calm": {10 * time.Minute, false, 0, time.Hour, 3 * time.Second},
		"while it is closed":    {0, true, 10 * time.Second, time.Hour, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, end := embedded(t)
				defer end()
				g := on(t, client)
				limited(t, g, "b")
				time.Sleep(test.calm)
				pass, err := g.Acquire(t.Context(), "b", "", nil)
				if err != nil {
					t.Fatal(err)
				}
				if test.refused {
					pass.ReportRefusal(t.Context(), test.asks)
				}
				stepBack(t, client, test.by)
				for range 3 {
					if took := goes(t, g); took > test.most {
						t.Errorf("one went after %s", took)
					}
				}
				for field, most := range map[string]float64{"credit": 10, "best": 100, "taken": 100} {
					if is, err := client.HGet(t.Context(), named("b:limit"), field).Float64(); err != nil || is > most || is < -10 {
						t.Errorf("%s is %g, %v", field, is, err)
					}
				}
			})
		})
	}
}

// TestWhoWasSilentBeforeTheClockSteppedBack: a process that ended before is not waited for
// until the clock has caught up.
func TestWhoWasSilentBeforeTheClockSteppedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		client, end := clientOf(t, server)
		defer end()
		g := on(t, client)
		limited(t, g, "b")
		lose(t, server, 300)
		stepBack(t, client, time.Hour)
		if took := goes(t, g); took > 40*time.Second {
			t.Errorf("one who came after them went after %s", took)
		}
	})
}
