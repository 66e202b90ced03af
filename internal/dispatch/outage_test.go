package dispatch

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/redistest"
)

func TestRedisIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	bus := newBus(t, server.Client())
	log := newLogbook()
	bus.log = log.logger()
	ctx, cancel := context.WithCancel(within(t))
	looks := listening(t, bus)
	wantLook(t, ctx, looks, Nudge{})
	got := make(chan Hint, 100)
	pulled := make(chan struct{})
	go func() {
		defer close(pulled)
		for ctx.Err() == nil {
			found, err := bus.Pull(ctx, pool, "w", 5, time.Minute)
			for _, d := range found {
				got <- d.Hint
			}
			if err != nil {
				continue // the attempt took its time already: the client backs off
			}
		}
	}()
	for epoch := range int64(3) {
		server.Kill()
		if err := bus.Announce(ctx, pool, some(1, 1)); err == nil {
			t.Error("announced to nobody")
		}
		server.Restart()
		hint := some(1, epoch+1)[0]
		until(t, ctx, "an announcement", func() bool { return bus.Announce(ctx, pool, []Hint{hint}) == nil })
		select {
		case h := <-got:
			if h != hint {
				t.Errorf("got %v, want %v", h, hint)
			}
		case <-ctx.Done():
			t.Fatal("the hint never came")
		}
		wantLook(t, ctx, looks, Nudge{})
		if err := bus.Nudge(ctx, "sender", Nudge{Session: hint.Session}); err != nil {
			t.Fatal(err)
		}
		wantLook(t, ctx, looks, Nudge{Session: hint.Session})
	}
	cancel()
	<-pulled
}

func TestWhatRedisKeptIsTakenOver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	bus := newBus(t, server.Client())
	hints := some(3, 1)
	announce(t, bus, hints)
	pull(t, bus, "dead", 2, time.Minute)
	server.Kill()
	server.Restart()
	ctx := within(t)
	var found []Delivery
	until(t, ctx, "taking over", func() bool {
		var err error
		found, err = bus.TakeOver(ctx, pool, "w", 0, 10)
		return err == nil
	})
	found = append(found, pull(t, bus, "w", 10, time.Minute)...)
	if !slices.Equal(hintsOf(found), hints) {
		t.Errorf("got %v, want %v", found, hints)
	}
}

// Entries that were deleted after they were read do not stay in the group.
func TestTakeOverClearsAway(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	bus, ctx := newBus(t, client), within(t)
	announce(t, bus, some(50, 1))
	dead := pull(t, bus, "dead", 50, time.Minute)
	key, err := bus.keys.ready(pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.XDel(ctx, key, ids(dead[:49])...).Err(); err != nil {
		t.Fatal(err)
	}
	found, err := bus.TakeOver(ctx, pool, "w", 0, 1)
	if err != nil || len(found) != 1 || found[0] != dead[49] {
		t.Errorf("got %v, %v", found, err)
	}
	pending, err := client.XPending(ctx, key, consumerGroup).Result()
	if err != nil || pending.Count != 1 {
		t.Errorf("pending: %v, %v", pending, err)
	}
}

// A connection that is dead but open is noticed.
func TestRedisIsFrozen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := newLogbook()
	bus := newBus(t, server.Client())
	bus.log = log.logger()
	ctx := within(t)
	looks := listening(t, bus)
	wantLook(t, ctx, looks, Nudge{})
	pulled := make(chan error, 1)
	untilPulling(t, server.Client(), func() *Bus {
		go func() {
			_, err := bus.Pull(ctx, pool, "w", 1, time.Hour)
			pulled <- err
		}()
		return bus
	}())
	server.Freeze()
	if err := <-pulled; err == nil {
		t.Error("a pull from a frozen Redis succeeded")
	}
	log.waitFor(t, ctx, "the subscription was interrupted")
	server.Thaw()
	wantLook(t, ctx, looks, Nudge{})
}

// The client retries on its own, but not commands that would duplicate hints.
func TestAnnouncingIsNotRepeated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var cut atomic.Bool
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), MaxRetries: 3,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &cutConn{Conn: conn, cut: &cut}, err
		},
	})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	bus, ctx := newBus(t, client), within(t)
	wantBacklog(t, bus, 0)
	cut.Store(true)
	if err := bus.Announce(ctx, pool, some(2, 1)); err == nil {
		t.Fatal("announced without an answer")
	}
	until(t, ctx, "the announcement", func() bool {
		n, err := bus.StreamLength(ctx, pool)
		return err == nil && n > 0
	})
	wantBacklog(t, bus, 2)
}

// cutConn loses the answer to the first announcement after cut was set.
type cutConn struct {
	net.Conn
	cut  *atomic.Bool
	dead atomic.Bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("xadd")) && c.cut.CompareAndSwap(true, false) {
		c.dead.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.dead.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}
