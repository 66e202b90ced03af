package orchestrator_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/tree"
)

// longGone is a Redis that reports some consumers as idle for long. The embedded Redis does not
// know idle times.
type longGone []string

func (l longGone) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l longGone) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if consumers, asked := command.(*redis.XInfoConsumersCmd); asked {
			for i := range consumers.Val() {
				if c := &consumers.Val()[i]; slices.Contains(l, c.Name) {
					c.Idle = 2 * time.Hour
				}
			}
		}
		return err
	}
}

func (l longGone) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestWorkersThatVanishedAreForgotten: consumers that have read nothing for long are removed,
// unless they have unfinished hints.
func TestWorkersThatVanishedAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := setup(t)
		embedded, err := dispatch.OpenEmbedded()
		if err != nil {
			t.Fatal(err)
		}
		defer embedded.Close()
		client := embedded.Client()
		defer client.Close()
		client.AddHook(longGone{"vanished", "left something"})
		if svc.Bus, err = dispatch.New(dispatch.Config{Client: client, Installation: svc.Store.Installation()}); err != nil {
			t.Fatal(err)
		}
		for _, worker := range []string{"here", "left something", "vanished"} {
			hint := dispatch.Hint{Session: tree.SessionID(uuid.New()), Task: tree.TaskID(uuid.New()), Epoch: 1}
			if err := svc.Bus.Announce(t.Context(), svc.Pool, []dispatch.Hint{hint}); err != nil {
				t.Fatal(err)
			}
			read, err := svc.Bus.Pull(t.Context(), svc.Pool, worker, 1, 0)
			if err != nil || len(read) != 1 {
				t.Fatalf("%s has read %v, %v", worker, read, err)
			}
			if worker == "left something" {
				continue
			}
			if err := svc.Bus.Done(t.Context(), svc.Pool, read[0].ID); err != nil {
				t.Fatal(err)
			}
		}
		_, stop := run(t, svc)
		defer stop()
		synctest.Wait()
		readers, err := client.XInfoConsumers(t.Context(), "coppice:{"+svc.Store.Installation()+"}:ready:"+svc.Pool, "workers").Result()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range readers {
			names = append(names, r.Name)
		}
		if !slices.Equal(names, []string{"here", "left something"}) {
			t.Errorf("the readers are %q, want those that are here or have left something", names)
		}
	})
}
