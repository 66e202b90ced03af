package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

func TestFlushDuringPull(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		for n := range int64(20) {
			want := some(1, n+1)[0]
			got := make(chan error, 1)
			go func() {
				found, err := bus.Pull(ctx, pool, "w", 1, testTime)
				if err == nil && (len(found) != 1 || found[0].Hint != want) {
					err = fmt.Errorf("got %v, want %v", found, want)
				}
				got <- err
			}()
			untilPulling(t, client, bus)
			if err := client.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			announce(t, bus, []Hint{want})
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			if err := client.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A hint that is announced until it arrives does arrive, whatever is deleted meanwhile.
func TestDeletionsUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		const deletions, hints = 300, 400
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		ctx, cancel := context.WithCancel(within(t))
		var g errgroup.Group
		got := make(chan Hint)
		for n := range 3 {
			g.Go(func() error { return consume(ctx, another(bus), fmt.Sprint("w", n), got) })
		}
		deleted := make(chan error, 1)
		go func() { deleted <- deleteAtRandom(ctx, client, bus, rand.New(rand.NewPCG(seed, 0)), deletions) }()
		wanted := map[Hint]bool{}
		for _, h := range some(hints, 1) {
			wanted[h] = true
		}
		for deleting := true; deleting || len(wanted) > 0; {
			var batch []Hint
			for h := range wanted {
				if batch = append(batch, h); len(batch) == 16 {
					break
				}
			}
			if err := bus.Announce(ctx, pool, batch); err != nil {
				t.Fatal(err)
			}
			for again := time.After(20 * time.Millisecond); again != nil; {
				select {
				case h := <-got:
					delete(wanted, h)
				case err := <-deleted:
					if deleting = false; err != nil {
						t.Fatal(err)
					}
				case <-again:
					again = nil
				case <-ctx.Done():
					t.Fatalf("%d of %d never came", len(wanted), hints)
				}
			}
		}
		go func() { // what is still under way
			for range got {
			}
		}()
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		close(got)
	})
}

// consume pulls, takes over and finishes hints, as workers do.
func consume(ctx context.Context, bus *Bus, name string, got chan<- Hint) error {
	for ctx.Err() == nil {
		found, err := bus.Pull(ctx, pool, name, 5, 50*time.Millisecond)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		old, err := bus.TakeOver(ctx, pool, name, time.Second, 5)
		if err != nil && ctx.Err() == nil {
			return err
		}
		for _, d := range append(found, old...) {
			got <- d.Hint
			if err := bus.Done(context.WithoutCancel(ctx), pool, d.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteAtRandom deletes entries, consumers, the group or the stream, with pauses for other
// goroutines.
func deleteAtRandom(ctx context.Context, client *redis.Client, bus *Bus, random *rand.Rand, n int) error {
	key, err := bus.keys.ready(pool)
	if err != nil {
		return err
	}
	for range n {
		entries, err := client.XRangeN(ctx, key, "-", "+", 16).Result()
		if err != nil {
			return err
		}
		switch random.IntN(8) {
		case 0:
			err = client.Del(ctx, key).Err()
		case 1:
			err = client.XGroupDestroy(ctx, key, consumerGroup).Err()
		case 2:
			err = client.XGroupDelConsumer(ctx, key, consumerGroup, fmt.Sprint("w", random.IntN(3))).Err()
		default:
			if len(entries) > 0 {
				err = client.XDel(ctx, key, entries[random.IntN(len(entries))].ID).Err()
			}
		}
		if err != nil && !redis.HasErrorPrefix(err, "NOGROUP") && !redis.HasErrorPrefix(err, "The XGROUP subcommand") {
			return err
		}
	}
	return nil
}
