package assembly_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/redistest"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestRedisMayDieOrForget kills Redis, empties it and takes its scripts away in the
// middle of trees. Nothing is lost, and no worker loses what it works on.
func TestRedisMayDieOrForget(t *testing.T) {
	t.Parallel()
	d := deploy(t, slow)
	d.startAll()
	c, client := d.client(), d.redis.Client()
	strikes := []func(){
		func() {
			d.redis.Kill()
			d.redis.Restart()
		},
		func() {
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		},
		func() {
			if err := client.ScriptFlush(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		},
	}
	var mended time.Time
	var back figures
	var all []watched
	n := len(strikes) * often(3, 20)
	for struck := 0; struck < n; {
		seen := 0
		all = append(all, c.follow(c.create("go").GetId(), func(e *pb.Event) {
			if e.GetDispatched() != nil && !mended.IsZero() && e.GetTime().AsTime().After(mended) {
				back, mended = append(back, e.GetTime().AsTime().Sub(mended)), time.Time{}
			}
			if seen++; seen%25 == 0 && struck < n {
				strikes[struck%len(strikes)]()
				mended = time.Now()
				struck++
			}
		}))
	}
	c.survived(all)
	for _, e := range redelivered(all) {
		t.Errorf("run %d of task %s was redelivered, though its worker lives", e.GetRun(), e.GetTaskId())
	}
	t.Logf("%d trees; dispatched again after %s", len(all), back)
}

// TestRedisOutOfMemory makes Redis refuse writes: what is spawned meanwhile is
// taken until the queue is full, and runs afterwards.
func TestRedisOutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const queue = 40
	limits := tree.DefaultLimits()
	limits.Queue = queue
	c := setup(t, `steps: [{text: done}]`, func(d *assembly.Dev) { d.RedisURL, d.Limits = server.URL(), &limits })
	// Nothing has run yet: a slot that has run something is given what becomes ready without Redis,
	// as is one that can't read from it.
	opened := c.create("")
	session, root := opened.GetId(), opened.GetRootTaskId()
	client := server.Client()
	until(t, "a worker that reads hints; one that can't stands by", func() bool {
		streams, _, err := client.ScanType(t.Context(), 0, "coppice:*", 1000, "stream").Result()
		return err == nil && len(streams) > 0
	})
	full := func(bytes string) {
		if err := client.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1")
	if err := client.Set(t.Context(), "room", "none", 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("Redis takes a write: %v", err)
	}
	taken, err := 0, error(nil)
	for ; err == nil && taken <= 2*queue; taken++ {
		_, err = c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{
			SessionId: session, ParentTaskId: root, Agent: "explore", Prompt: "go",
		})
	}
	taken-- // the last one was refused
	if status.Code(err) != codes.ResourceExhausted || taken != queue {
		t.Errorf("after %d of %d: %v", taken, queue, err)
	}
	for _, task := range c.tasks(session) {
		if task.GetId() != root && task.GetState() != pb.TaskState_TASK_STATE_PENDING {
			t.Errorf("task %s is %s, though nobody can be told of it", task.GetId(), task.GetState())
		}
	}
	full("0")
	mended := time.Now()
	for _, task := range c.tasks(session) {
		if task.GetId() == root {
			continue
		}
		if got := c.wait(session, task.GetId()); got.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("task %s ended %s: %s", got.GetId(), got.GetState(), got.GetDetail())
		}
	}
	t.Logf("%d tasks were done %s after there was room", taken, time.Since(mended).Round(time.Millisecond))
	c.sound()
}

// TestDeletedStreamEntriesAreAnnouncedAgain deletes hints, groups and whole streams
// at random while trees grow.
func TestDeletedStreamEntriesAreAnnouncedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := setup(t, slow, func(d *assembly.Dev) { d.RedisURL = server.URL() })
	client := server.Client()
	n := int64(often(40, 1000))
	var deletions, last atomic.Int64
	deleting := launch(t, func(ctx context.Context) error {
		rng := rand.New(rand.NewPCG(4, 4))
		for ctx.Err() == nil && deletions.Load() < n {
			deleted, err := deleteSome(ctx, client, rng)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if deleted {
				deletions.Add(1)
				last.Store(time.Now().UnixNano())
			}
		}
		return nil
	})
	var all []watched
	var done time.Time
	for deletions.Load() < n && !t.Failed() {
		var grown []string
		for range 4 { // so that there are hints to delete
			grown = append(grown, c.create("go").GetId())
		}
		for _, session := range grown {
			all = append(all, c.follow(session, func(*pb.Event) {}))
		}
		done = time.Now()
	}
	if err := deleting.stop(); err != nil {
		t.Error(err)
	}
	c.survived(all)
	t.Logf("%d trees, %d deletions; all was done %s after the last", len(all), deletions.Load(),
		done.Sub(time.Unix(0, last.Load())).Round(time.Millisecond))
}

// deleteSome deletes a hint, or sometimes the group or all, of a dispatch stream.
func deleteSome(ctx context.Context, client *redis.Client, rng *rand.Rand) (bool, error) {
	streams, _, err := client.ScanType(ctx, 0, "coppice:*", 1000, "stream").Result()
	if err != nil || len(streams) == 0 {
		return false, err
	}
	var n int64
	switch stream := streams[0]; rng.IntN(10) {
	case 0:
		n, err = client.Del(ctx, stream).Result()
	case 1:
		n, err = client.XGroupDestroy(ctx, stream, "workers").Result()
	default:
		var hints []redis.XMessage
		if hints, err = client.XRangeN(ctx, stream, "-", "+", 50).Result(); err == nil && len(hints) > 0 {
			n, err = client.XDel(ctx, stream, hints[rng.IntN(len(hints))].ID).Result()
		}
	}
	if redis.HasErrorPrefix(err, "ERR The XGROUP") || redis.HasErrorPrefix(err, "ERR no such key") {
		err = nil // it is gone already
	}
	return n > 0, err
}
