package dispatch

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/tree"
)

// wishing runs Listen for its wishes, from when it hears them. It ends with the test.
func wishing(t *testing.T, bus *Bus, self string) <-chan Interest {
	t.Helper()
	wishes := make(chan Interest, 10*interestsPerMessage)
	ready := make(chan struct{}, 1000)
	listen(t, bus, self, func(Nudge) { ready <- struct{}{} }, func(w Interest) { wishes <- w })
	// Both channels are subscribed to once a wish comes through.
	ctx := within(t)
	first := Interest{Replica: "first", Session: tree.SessionID(uuid.New())}
	<-ready
	until(t, ctx, "a wish that is heard", func() bool {
		if err := bus.SendInterests(ctx, first.Replica, first); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wishes:
			return true
		default:
			return false
		}
	})
	return wishes
}

// nextWish waits for the next wish of anybody but the one that a test begins with.
func nextWish(t *testing.T, wishes <-chan Interest) Interest {
	t.Helper()
	ctx := within(t)
	for {
		select {
		case w := <-wishes:
			if w.Replica != "first" {
				return w
			}
		case <-ctx.Done():
			t.Fatal("no wish came")
		}
	}
}

func TestWishes(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		log := newLogbook()
		bus.log = log.logger()
		heard, own := wishing(t, bus, "a listener"), wishing(t, bus, "a wisher")
		var want []Interest
		for i := range 2*interestsPerMessage + 1 {
			want = append(want, Interest{Replica: "a wisher", Session: tree.SessionID(uuid.New()), Over: i%2 == 1})
		}
		if err := bus.SendInterests(ctx, "a wisher", want...); err != nil {
			t.Fatal(err)
		}
		id := want[0].Session.String()
		for _, payload := range []string{
			"", "%zz +" + id, strings.Repeat("x", maxReplicaNameBytes+1) + " +" + id, // nobody's
			"x " + id, "x +-" + id, "x -+" + id, "x +" + uuid.Nil.String(), "x +\xff", "x + " + id, // nothing's: the last twice
		} {
			if err := client.Publish(ctx, bus.keys.interest(), payload).Err(); err != nil {
				t.Fatal(err)
			}
		}
		last := Interest{Replica: "another", Session: want[0].Session, Over: true}
		if err := bus.SendInterests(ctx, last.Replica, last); err != nil {
			t.Fatal(err)
		}
		for i, w := range append(want, last) {
			if got := nextWish(t, heard); got != w {
				t.Fatalf("wish %d is %v, want %v", i+1, got, w)
			}
		}
		if got := nextWish(t, own); got != last {
			t.Errorf("a replica heard %v first, want %v: its own wishes are not for it", got, last)
		}
		if nobody, nothing := log.count("an interest names no replica"), log.count("an interest names no session"); nobody != 2*3 || nothing != 2*7 {
			t.Errorf("%d wishes were logged as nobody's and %d as nothing's, want 6 and 14", nobody, nothing)
		}
	})
}

func FuzzWished(f *testing.F) {
	bus := &Bus{log: slog.New(slog.DiscardHandler)}
	f.Add(encodeInterests("other", []Interest{{Session: tree.SessionID{1}}, {Session: tree.SessionID{2}, Over: true}}), "me")
	f.Add(encodeInterests("me", []Interest{{Session: tree.SessionID{1}}}), "me")
	f.Add("%zz +\xff -\x00 +-"+tree.SessionID{1}.String(), "%zz")
	f.Fuzz(func(t *testing.T, payload, self string) {
		read := func(payload string) (seen []Interest) {
			bus.decodeInterests(t.Context(), payload, self, func(w Interest) { seen = append(seen, w) })
			return seen
		}
		seen := read(payload)
		for _, w := range seen {
			if w.Session.IsZero() || w.Replica == "" || w.Replica == self || len(w.Replica) > maxReplicaNameBytes {
				t.Errorf("%q is read as %v", payload, w)
			}
		}
		if len(seen) == 0 {
			return
		}
		if again := read(encodeInterests(seen[0].Replica, seen)); !slices.Equal(again, seen) {
			t.Errorf("%v came back as %v", seen, again)
		}
	})
}
