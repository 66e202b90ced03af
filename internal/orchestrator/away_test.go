package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/dispatch"
)

// full is a Redis that takes no hints while it is set, as if it had no memory.
type full struct{ atomic.Bool }

func (f *full) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (f *full) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f *full) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if f.Load() && slices.ContainsFunc(commands, func(c redis.Cmder) bool { return c.Name() == "xadd" }) {
			return errors.New("OOM command not allowed when used memory > 'maxmemory'")
		}
		return next(ctx, commands)
	}
}

// TestRedisIsOfferedAgain: hints that Redis did not take are sent again, although nothing else
// happens meanwhile.
func TestRedisIsOfferedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := setup(t)
		embedded, err := dispatch.OpenEmbedded()
		if err != nil {
			t.Fatal(err)
		}
		defer embedded.Close()
		client, refuses := embedded.Client(), &full{}
		defer client.Close()
		client.AddHook(refuses)
		if svc.Bus, err = dispatch.New(dispatch.Config{Client: client, Installation: svc.Store.Installation()}); err != nil {
			t.Fatal(err)
		}
		backlog := func() int {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			n, err := svc.Bus.StreamLength(t.Context(), svc.Pool)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		_, stop := run(t, svc)
		defer stop()
		refuses.Store(true)
		for range 5 {
			openSession(t, svc)
		}
		if n := backlog(); n != 0 {
			t.Errorf("%d hints are on the stream of a Redis that takes none", n)
		}
		refuses.Store(false)
		if backlog() == 0 {
			t.Error("what waits was not offered again")
		}
	})
}
