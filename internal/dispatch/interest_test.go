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

// listenForInterests runs Listen and returns the interests it gets, from when it is subscribed. It
// ends with the test.
func listenForInterests(t *testing.T, bus *Bus, self string) <-chan Interest {
	t.Helper()
	interests := make(chan Interest, 10*interestsPerMessage)
	ready := make(chan struct{}, 1000)
	listen(t, bus, self, func(Nudge) { ready <- struct{}{} }, func(w Interest) { interests <- w })
	// Both channels are subscribed to once an interest arrives.
	ctx := within(t)
	first := Interest{Replica: "first", Session: tree.SessionID(uuid.New())}
	<-ready
	until(t, ctx, "an interest that arrives", func() bool {
		if err := bus.SendInterests(ctx, first.Replica, first); err != nil {
			t.Fatal(err)
		}
		select {
		case <-interests:
			return true
		default:
			return false
		}
	})
	return interests
}

// nextInterest waits for the next interest other than those that listenForInterests begins with.
func nextInterest(t *testing.T, interests <-chan Interest) Interest {
	t.Helper()
	ctx := within(t)
	for {
		select {
		case w := <-interests:
			if w.Replica != "first" {
				return w
			}
		case <-ctx.Done():
			t.Fatal("no interest came")
		}
	}
}

func TestInterests(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		log := newLogbook()
		bus.log = log.logger()
		heard, own := listenForInterests(t, bus, "a listener"), listenForInterests(t, bus, "a sender")
		var want []Interest
		for i := range 2*interestsPerMessage + 1 {
			want = append(want, Interest{Replica: "a sender", Session: tree.SessionID(uuid.New()), Over: i%2 == 1})
		}
		if err := bus.SendInterests(ctx, "a sender", want...); err != nil {
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
			if got := nextInterest(t, heard); got != w {
				t.Fatalf("interest %d is %v, want %v", i+1, got, w)
			}
		}
		if got := nextInterest(t, own); got != last {
			t.Errorf("a replica heard %v first, want %v: its own interests are not for it", got, last)
		}
		if nobody, nothing := log.count("an interest names no replica"), log.count("an interest names no session"); nobody != 2*3 || nothing != 2*7 {
			t.Errorf("%d interests were logged as nobody's and %d as nothing's, want 6 and 14", nobody, nothing)
		}
	})
}

func FuzzDecodeInterests(f *testing.F) {
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
