package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/redistest"
)

func TestHintsComeInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *redis.Client, bus *Bus) {
		hints := some(5, 1)
		announce(t, bus, hints[:2])
		announce(t, bus, nil)
		announce(t, bus, hints[2:])
		var got []Delivery
		for _, max := range []int{2, 1, 10} {
			got = append(got, pull(t, bus, "w", max, time.Minute)...)
		}
		if !slices.Equal(hintsOf(got), hints) {
			t.Errorf("got %v, want %v", got, hints)
		}
		wantBacklog(t, bus, 5)
		if more := pull(t, bus, "w", 10, 0); more != nil {
			t.Errorf("read twice: %v", more)
		}
		finish(t, bus, got)
		finish(t, bus, got) // again, for nothing
		finish(t, bus, nil)
		wantBacklog(t, bus, 0)
	})
}

// TestUnread: hints that a consumer has read are not counted, whether done or not, nor are deleted
// ones.
func TestUnread(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		want := func(want int) {
			t.Helper()
			if ids, err := bus.Unread(t.Context(), pool, 3); err != nil || len(ids) != want {
				t.Errorf("%v are unread, %v; want %d", ids, err, want)
			}
		}
		want(0)
		announce(t, bus, some(5, 1))
		want(3) // at most
		first := pull(t, bus, "w", 3, 0)
		want(2)
		finish(t, bus, first)
		want(2)
		pull(t, bus, "x", 5, 0)
		want(0)
		announce(t, bus, some(1, 6))
		want(1)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		want(0)
	})
}

func TestConsumersShareWithoutDoubling(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *redis.Client, bus *Bus) {
		const total, batch = 600, 40
		ctx, cancel := context.WithCancel(within(t))
		got := make(chan int64)
		var g errgroup.Group
		for n := range 5 {
			g.Go(func() error {
				bus := another(bus)
				for {
					found, err := bus.Pull(ctx, pool, fmt.Sprint("w", n), 7, time.Minute)
					if errors.Is(err, context.Canceled) {
						return nil
					}
					if err != nil {
						return err
					}
					for _, d := range found {
						got <- d.Hint.Epoch
					}
					if err := bus.Done(context.WithoutCancel(ctx), pool, ids(found)...); err != nil {
						return err
					}
				}
			})
		}
		g.Go(func() error {
			for i := 0; i < total; i += batch {
				if err := bus.Announce(ctx, pool, some(batch, int64(i+1))); err != nil {
					return err
				}
			}
			return nil
		})
		seen := map[int64]bool{}
		for len(seen) < total {
			select {
			case epoch := <-got:
				if seen[epoch] {
					t.Errorf("hint %d came twice", epoch)
				}
				seen[epoch] = true
			case <-ctx.Done():
				t.Fatalf("%d of %d came", len(seen), total)
			}
		}
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		wantBacklog(t, bus, 0)
	})
}

// A long pipeline is written before its answers are read, so it would block for ever without a
// buffer.
func TestManyHintsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *redis.Client, bus *Bus) {
		announce(t, bus, some(3000, 1))
		found := pull(t, bus, "w", 3000, time.Minute)
		if len(found) != 3000 {
			t.Errorf("%d of 3000 came", len(found))
		}
		finish(t, bus, found)
		wantBacklog(t, bus, 0)
	})
}

func TestTakeOver(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		if found, err := bus.TakeOver(ctx, pool, "w", 0, 10); err != nil || found != nil {
			t.Fatalf("without a stream: %v, %v", found, err)
		}
		hints := some(6, 1)
		announce(t, bus, hints)
		dead := pull(t, bus, "dead", 5, time.Minute)
		if found, err := bus.TakeOver(ctx, pool, "w", time.Hour, 10); err != nil || found != nil {
			t.Fatalf("fresh ones: %v, %v", found, err)
		}
		key, err := bus.keys.ready(pool)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.XDel(ctx, key, dead[1].ID).Err(); err != nil {
			t.Fatal(err)
		}
		var got []Delivery
		for len(got) < 4 {
			found, err := bus.TakeOver(ctx, pool, "w", 0, 3)
			if err != nil || len(found) == 0 || len(found) > 3 {
				t.Fatalf("after %d: %v, %v", len(got), found, err)
			}
			finish(t, bus, found)
			got = append(got, found...)
		}
		if want := slices.Delete(slices.Clone(hints[:5]), 1, 2); !slices.Equal(hintsOf(got), want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if found, err := bus.TakeOver(ctx, pool, "w", 0, 10); err != nil || found != nil {
			t.Errorf("finished ones: %v, %v", found, err)
		}
		rest := pull(t, bus, "w", 10, time.Minute)
		if !slices.Equal(hintsOf(rest), hints[5:]) {
			t.Errorf("left %v, want %v", rest, hints[5:])
		}
		finish(t, bus, rest)
		wantBacklog(t, bus, 0)
	})
}

func TestForget(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		forget := func() {
			t.Helper()
			if err := bus.Forget(ctx, pool, "w"); err != nil {
				t.Fatal(err)
			}
		}
		key, err := bus.keys.ready(pool)
		if err != nil {
			t.Fatal(err)
		}
		known := func() int {
			consumers, err := client.XInfoConsumers(ctx, key, consumerGroup).Result()
			if err != nil {
				t.Fatal(err)
			}
			return len(consumers)
		}
		forget() // no stream
		announce(t, bus, some(1, 1))
		forget() // no group
		found := pull(t, bus, "w", 1, time.Minute)
		if forget(); known() != 1 {
			t.Error("a consumer was forgotten with what it had read")
		}
		finish(t, bus, found)
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if forget(); known() != 0 {
			t.Error("a consumer that had finished was not forgotten")
		}
		forget()
	})
}

// TestForgetIdle: consumers that have read nothing for so long and have no unfinished hints are
// removed.
func TestForgetIdle(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	bus, ctx := newBus(t, client), within(t)
	key, err := bus.keys.ready(pool)
	if err != nil {
		t.Fatal(err)
	}
	forget := func(idle time.Duration, seen int, left ...string) {
		t.Helper()
		if n, err := bus.ForgetIdle(ctx, pool, idle); err != nil || n != seen {
			t.Errorf("%d were forgotten, %v; want %d", n, err, seen)
		}
		if left == nil {
			return
		}
		consumers, err := client.XInfoConsumers(ctx, key, consumerGroup).Result()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range consumers {
			names = append(names, c.Name)
		}
		if slices.Sort(names); !slices.Equal(names, left) {
			t.Errorf("%q are left, want %q", names, left)
		}
	}
	forget(0, 0) // no stream
	announce(t, bus, some(2, 1))
	forget(0, 0) // no group
	for _, name := range []string{"done", "died"} {
		if found := pull(t, bus, name, 1, time.Minute); name == "done" {
			finish(t, bus, found)
		}
	}
	forget(time.Hour, 0, "died", "done")
	forget(0, 1, "died")
	if found := pull(t, bus, "done", 1, 0); len(found) > 0 {
		t.Errorf("who pulls again gets %v", found)
	}
	if found, err := bus.TakeOver(ctx, pool, "done", 0, 1); err != nil || len(found) != 1 {
		t.Errorf("what was left was taken over as %v, %v", found, err)
	}
}

func TestGarbage(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		log := newLogbook()
		bus.log = log.logger()
		key, err := bus.keys.ready(pool)
		if err != nil {
			t.Fatal(err)
		}
		good := some(2, 1)
		long := strings.Repeat("x", 100_000)
		garbage := [][]any{
			{"what", "ever"},
			{fieldSession, "", fieldTask, "", fieldEpoch, ""},
			{fieldSession, good[0].Session.String(), fieldTask, good[0].Task.String()},
			{fieldSession, good[0].Session.String(), fieldTask, good[0].Task.String(), fieldEpoch, "0"},
			{fieldSession, long, fieldTask, long, fieldEpoch, long},
			{"\xff\x00", "\xff"},
		}
		for _, values := range garbage {
			if err := client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if found := pull(t, bus, "w", 2, 0); found != nil {
			t.Errorf("garbage was delivered: %v", found)
		}
		wantBacklog(t, bus, 0)
		for _, values := range garbage {
			if err := client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		announce(t, bus, good)
		if found := pull(t, bus, "w", 3, time.Minute); !slices.Equal(hintsOf(found), good[:1]) && !slices.Equal(hintsOf(found), good) {
			t.Errorf("got %v", found)
		}
		if n := log.count("a dispatch entry is not a valid hint and is deleted"); n != 2*len(garbage) {
			t.Errorf("%d of %d were logged", n, 2*len(garbage))
		}
	})
}

func TestGarbageIsNotTakenOver(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		key, err := bus.keys.ready(pool)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []any{"what", "ever"}}).Err(); err != nil {
			t.Fatal(err)
		}
		announce(t, bus, some(1, 1))
		if err := bus.createGroup(ctx, key); err != nil {
			t.Fatal(err)
		}
		if _, err := bus.readNew(ctx, key, "dead", 10, 0); err != nil {
			t.Fatal(err)
		}
		found, err := bus.TakeOver(ctx, pool, "w", 0, 10)
		if err != nil || len(found) != 1 {
			t.Errorf("got %v, %v", found, err)
		}
		wantBacklog(t, bus, 1)
	})
}

func TestInstallationsAndPoolsAreApart(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		other := newBus(t, client)
		looks := listening(t, other)
		wantLook(t, ctx, looks, Nudge{})
		hints := some(1, 1)
		announce(t, bus, hints)
		if err := bus.Nudge(ctx, "sender", Nudge{Session: hints[0].Session}); err != nil {
			t.Fatal(err)
		}
		if found := pull(t, other, "w", 1, 0); found != nil {
			t.Errorf("another installation read %v", found)
		}
		if found, err := bus.Pull(ctx, "gpu", "w", 1, 0); err != nil || found != nil {
			t.Errorf("another pool read %v, %v", found, err)
		}
		wantBacklog(t, other, 0)
		own := some(1, 1)[0].Session
		if err := other.Nudge(ctx, "sender", Nudge{Session: own}); err != nil {
			t.Fatal(err)
		}
		if got := nextLook(t, ctx, looks); got != (Nudge{Session: own}) {
			t.Errorf("told to look at %v, want %s", got, own)
		}
		if found := pull(t, bus, "w", 1, 0); !slices.Equal(hintsOf(found), hints) {
			t.Errorf("got %v", found)
		}
	})
}

func TestPullEndsWithItsContext(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		go func() {
			_, err := bus.Pull(ctx, pool, "w", 1, time.Hour)
			ended <- err
		}()
		untilPulling(t, client, bus)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// Nothing is left of that read that could catch the next hint.
		announce(t, bus, some(1, 1))
		if found := pull(t, bus, "other", 1, time.Minute); len(found) != 1 {
			t.Errorf("got %v", found)
		}
		if _, err := bus.Pull(ctx, pool, "w", 1, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("after it: %v", err)
		}
		if err := bus.Announce(ctx, pool, some(1, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("announcing after it: %v", err)
		}
	})
}

// TestNothingIsLostWithAPullThatEnds: a hint that arrives at the moment at which a Pull ends is
// returned or stays unread. The embedded Redis does not promise that.
func TestNothingIsLostWithAPullThatEnds(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	bus := newBus(t, client)
	for i := range 50 {
		ctx, cancel := context.WithCancel(within(t))
		got := make(chan []Delivery, 1)
		go func() {
			found, err := bus.Pull(ctx, pool, "w", 1, time.Hour)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			got <- found
		}()
		untilPulling(t, client, bus)
		go cancel()
		announce(t, bus, some(1, int64(i+1)))
		found := <-got
		if len(found) == 0 {
			found = pull(t, bus, "other", 1, time.Minute)
		}
		if len(found) != 1 {
			t.Fatalf("hint %d: got %v", i, found)
		}
		finish(t, bus, found)
	}
}

// TestAPullThatEndsGivesNoMoreThanAskedFor: it returns at most max hints, although the consumer has
// just got others.
func TestAPullThatEndsGivesNoMoreThanAskedFor(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *redis.Client, bus *Bus) {
		const slots, free = 8, 2
		for i := range 20 {
			announce(t, bus, some(slots, int64(i*slots+1)))
			held := pull(t, bus, "w", slots, time.Minute)
			ctx, cancel := context.WithCancel(within(t))
			go cancel()
			found, err := bus.Pull(ctx, pool, "w", free, time.Hour)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if len(found) > free {
				t.Fatalf("got %d hints of %d", len(found), free)
			}
			finish(t, bus, held)
		}
	})
}

// untilPulling waits until a Pull has created the group.
func untilPulling(t *testing.T, client *redis.Client, bus *Bus) {
	t.Helper()
	key, err := bus.keys.ready(pool)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	until(t, ctx, "a pull", func() bool {
		groups, err := client.XInfoGroups(ctx, key).Result()
		return err == nil && len(groups) == 1
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	client := embedded(t).Client()
	for _, installation := range []string{"", "a b", "{a}", "a:b", strings.Repeat("a", 65)} {
		if _, err := New(Config{Client: client, Installation: installation}); !errors.Is(err, ErrInstallation) {
			t.Errorf("installation %q: %v", installation, err)
		}
	}
	if _, err := New(Config{Installation: "i"}); err == nil {
		t.Error("no client: no error")
	}
	bus, ctx := newBus(t, client), t.Context()
	for _, name := range []string{"", "A", "a:b", "a\n", "é", strings.Repeat("a", 64)} {
		_, backlog := bus.StreamLength(ctx, name)
		_, unread := bus.Unread(ctx, name, 1)
		_, discard := bus.Discard(ctx, name, "w", []string{"1-1"})
		_, pull := bus.Pull(ctx, name, "w", 1, 0)
		_, takeOver := bus.TakeOver(ctx, name, "w", 0, 1)
		for call, err := range map[string]error{
			"Announce": bus.Announce(ctx, name, nil), "Done": bus.Done(ctx, name), "Forget": bus.Forget(ctx, name, "w"),
			"Backlog": backlog, "Unread": unread, "Discard": discard, "Pull": pull, "TakeOver": takeOver,
		} {
			if !errors.Is(err, ErrPool) {
				t.Errorf("%s on pool %q: %v", call, name, err)
			}
		}
	}
	if _, err := bus.Pull(ctx, pool, "", 1, 0); err == nil {
		t.Error("no consumer: no error")
	}
	if _, err := bus.Pull(ctx, pool, "w", 0, 0); err == nil {
		t.Error("no hints wanted: no error")
	}
	for _, h := range []Hint{{}, {Session: some(1, 1)[0].Session, Epoch: 1}, some(1, 0)[0]} {
		if err := bus.Announce(ctx, pool, []Hint{some(1, 1)[0], h}); err == nil {
			t.Errorf("%v was announced", h)
		}
	}
	wantBacklog(t, bus, 0)
}

// TestWhatAConsumerHasLeft: other processes can read the unfinished hints of a consumer.
func TestWhatAConsumerHasLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *redis.Client, bus *Bus) {
		left := func(consumer string, max int) []Hint {
			t.Helper()
			found, err := bus.Unfinished(t.Context(), pool, consumer, max)
			if err != nil {
				t.Fatal(err)
			}
			return hintsOf(found)
		}
		if got := left("w", 10); len(got) != 0 {
			t.Errorf("of nothing there is left %v", got)
		}
		hints := some(5, 1)
		announce(t, bus, hints)
		mine := pull(t, bus, "w", 4, time.Minute)
		pull(t, bus, "other", 1, time.Minute)
		finish(t, bus, mine[:1])
		if got := left("w", 10); !slices.Equal(got, hints[1:4]) {
			t.Errorf("there is left %v, not %v", got, hints[1:4])
		}
		if got := left("w", 2); !slices.Equal(got, hints[1:3]) {
			t.Errorf("of two there is left %v", got)
		}
		if got := left("nobody", 10); len(got) != 0 {
			t.Errorf("of somebody who has read nothing there is left %v", got)
		}
		finish(t, bus, mine)
		if got := left("w", 10); len(got) != 0 {
			t.Errorf("of what is finished there is left %v", got)
		}
		if _, err := bus.Unfinished(t.Context(), pool, "", 1); err == nil {
			t.Error("nobody has left something")
		}
	})
}
