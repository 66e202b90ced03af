package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/tree"
)

func TestNudges(t *testing.T) {
	onBoth(t, func(t *testing.T, client redis.UniversalClient, bus *Bus) {
		ctx := within(t)
		log := newLogbook()
		bus.log = log.logger()
		first, second := listening(t, bus), listening(t, bus)
		for _, looks := range []<-chan tree.SessionID{first, second} {
			if got := nextLook(t, ctx, looks); !got.IsZero() {
				t.Errorf("began with %s", got)
			}
		}
		sessions := []tree.SessionID{tree.SessionID(uuid.New()), tree.SessionID(uuid.New())}
		if err := bus.Nudge(ctx, sessions...); err != nil {
			t.Fatal(err)
		}
		for _, payload := range []string{"", "what ever", "\xff", sessions[1].String() + "x", uuid.Nil.String()} {
			if err := client.Publish(ctx, bus.keys.nudge(), payload).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := bus.Nudge(ctx); err != nil {
			t.Fatal(err)
		}
		if err := bus.Nudge(ctx, sessions[0]); err != nil {
			t.Fatal(err)
		}
		for _, looks := range []<-chan tree.SessionID{first, second} {
			for _, want := range append(sessions, sessions[0]) {
				if got := nextLook(t, ctx, looks); got != want {
					t.Errorf("told to look at %s, want %s", got, want)
				}
			}
		}
		if n := log.count("a nudge names no session"); n != 2*5 {
			t.Errorf("%d unreadable names were logged, want 10", n)
		}
	})
}

func TestListenEndsWithTheClient(t *testing.T) {
	t.Parallel()
	e := embedded(t)
	bus := newBus(t, e.Client())
	ended := make(chan error, 1)
	looks := make(chan tree.SessionID, 10)
	go func() { ended <- bus.Listen(t.Context(), func(s tree.SessionID) { looks <- s }) }()
	<-looks
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, redis.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestListenWithoutRedis(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	log := newLogbook()
	bus := newBus(t, client)
	bus.log = log.logger()
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { ended <- bus.Listen(ctx, func(tree.SessionID) { t.Error("subscribed to nothing") }) }()
	log.waitFor(t, ctx, "listening for nudges broke off")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
