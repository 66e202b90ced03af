package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/tree"
)

func TestNudges(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		log := newLogbook()
		bus.log = log.logger()
		first, second := listening(t, bus), listening(t, bus)
		for _, looks := range []<-chan Nudge{first, second} {
			if got := nextLook(t, ctx, looks); got != (Nudge{}) {
				t.Errorf("began with %v", got)
			}
		}
		sessions := []Nudge{{Session: tree.SessionID(uuid.New())}, {Session: tree.SessionID(uuid.New()), Task: tree.TaskID(uuid.New())}}
		if err := bus.Nudge(ctx, "sender 1", sessions...); err != nil {
			t.Fatal(err)
		}
		for _, payload := range []string{
			"", "x", "what ever", "x \xff", "x " + sessions[1].Session.String() + "x", "x " + uuid.Nil.String(),
			"x " + sessions[0].Session.String() + "/", "%zz y", encodeNudges("listener", sessions),
		} {
			if err := client.Publish(ctx, bus.keys.nudge(), payload).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := bus.Nudge(ctx, "sender 1"); err != nil {
			t.Fatal(err)
		}
		if err := bus.Nudge(ctx, "sender 1", sessions[0]); err != nil {
			t.Fatal(err)
		}
		for _, looks := range []<-chan Nudge{first, second} {
			for _, want := range append(sessions, sessions[0]) {
				if got := nextLook(t, ctx, looks); got != want {
					t.Errorf("told to look at %v, want %v", got, want)
				}
			}
		}
		if n := log.count("a nudge names no session or task"); n != 2*6 {
			t.Errorf("%d unreadable names were logged, want 12", n)
		}
	})
}

func TestListenEndsWithTheClient(t *testing.T) {
	t.Parallel()
	e := embedded(t)
	bus := newBus(t, e.Client())
	ended := make(chan error, 1)
	looks := make(chan Nudge, 10)
	go func() { ended <- bus.Listen(t.Context(), "listener", func(n Nudge) { looks <- n }, func(Interest) {}) }()
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
	listenInVain(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), func(ctx context.Context, log *logbook) {
		log.waitFor(t, ctx, "the subscription was interrupted")
	})
}

// listenInVain listens where nothing can be subscribed to, until meanwhile returns.
func listenInVain(t *testing.T, client *redis.Client, meanwhile func(context.Context, *logbook)) *logbook {
	t.Helper()
	log := newLogbook()
	bus := newBus(t, client)
	bus.log = log.logger()
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		ended <- bus.Listen(ctx, "listener", func(Nudge) { t.Error("subscribed to nothing") }, func(Interest) {})
	}()
	meanwhile(ctx, log)
	cancel()
	if err := errors.Join(<-ended, client.Close()); err != nil {
		t.Error(err)
	}
	return log
}

func FuzzNudged(f *testing.F) {
	bus := &Bus{log: slog.New(slog.DiscardHandler)}
	some := []Nudge{{Session: tree.SessionID{1}}, {Session: tree.SessionID{1}, Task: tree.TaskID{2}}}
	f.Add(encodeNudges("other", some), "me")
	f.Add(encodeNudges("me", some), "me")
	f.Add(" "+some[0].Session.String()+"/", "")
	f.Add("%zz \xff//\x00 "+tree.SessionID{}.String()+"  x", "%zz")
	f.Fuzz(func(t *testing.T, payload, self string) {
		read := func(payload string) (seen []Nudge) {
			bus.decodeNudges(t.Context(), payload, self, func(n Nudge) { seen = append(seen, n) })
			return seen
		}
		seen := read(payload)
		for _, n := range seen {
			if n.Session.IsZero() {
				t.Errorf("%q makes everybody look at everything", payload)
			}
		}
		if again := read(encodeNudges(self+"x", seen)); !slices.Equal(again, seen) {
			t.Errorf("%v came back as %v", seen, again)
		}
		if heard := read(encodeNudges(self, seen)); heard != nil {
			t.Errorf("%q heard itself: %v", self, heard)
		}
	})
}
