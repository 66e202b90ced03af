package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := OpenEmbedded()
		if err != nil {
			t.Fatal(err)
		}
		bus := newBus(t, e.Client())
		start := time.Now()
		if found := pull(t, bus, "w", 1, time.Minute); found != nil || time.Since(start) != time.Minute {
			t.Errorf("got %v after %s", found, time.Since(start))
		}

		announce(t, bus, some(1, 1))
		dead := pull(t, bus, "dead", 1, 0)
		time.Sleep(4 * time.Second) // the bubble's time
		for wait, want := range []int{0, 1, 0} {
			if wait > 0 {
				time.Sleep(time.Second)
			}
			found, err := bus.TakeOver(t.Context(), pool, "w", 5*time.Second, 1)
			if err != nil || len(found) != want {
				t.Errorf("after %d s more: %v, %v; want %d", wait, found, err, want)
			}
		}
		finish(t, bus, dead)

		start = time.Now()
		go func() {
			time.Sleep(30 * time.Second)
			announce(t, bus, some(1, 1))
		}()
		if found := pull(t, bus, "w", 1, time.Hour); len(found) != 1 || time.Since(start) != 30*time.Second {
			t.Errorf("got %v after %s", found, time.Since(start))
		}

		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10100*time.Millisecond)
		if _, err := bus.Pull(ctx, pool, "w", 1, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
		if late := time.Since(start) - 10100*time.Millisecond; late != 0 {
			t.Errorf("noticed the end after %s", late)
		}

		ctx, cancel = context.WithCancel(t.Context())
		looks, ended := make(chan Nudge, 100), make(chan error, 1)
		go func() { ended <- bus.Listen(ctx, "listener", func(n Nudge) { looks <- n }, func(Interest) {}) }()
		time.Sleep(time.Hour)
		if len(looks) != 1 {
			t.Errorf("an idle hour brought %d looks, want the first only", len(looks))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
