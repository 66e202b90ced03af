// Package deploy_test holds what is shipped for deployments against the programs.
package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/redistest"
	"github.com/coppice-run/coppice/internal/tree"
)

const patience = 2 * time.Minute

// guarded is a Redis with the user of workers as it is shipped.
func guarded(t *testing.T) (server *redistest.Server, worker *redis.Client) {
	t.Helper()
	rules, err := os.ReadFile("k8s/base/redis-worker.acl")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(strings.TrimSpace(string(rules)), "\n") > 0 {
		t.Fatal("the rules have to be one line, which scripts put behind a name")
	}
	users := filepath.Join(t.TempDir(), "users.acl")
	text := "user default on nopass ~* &* +@all\nuser worker on >secret " + string(rules)
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server = redistest.Start(t, "--aclfile", users)
	worker, err = assembly.OpenRedis("redis://worker:secret@" + server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { worker.Close() })
	// As one does it on a Redis that is there already.
	set := []any{"acl", "setuser", "again", "on", ">secret"}
	for word := range strings.FieldsSeq(string(rules)) {
		set = append(set, word)
	}
	if err := server.Client().Do(t.Context(), set...).Err(); err != nil {
		t.Errorf("setting the user by a command: %v", err)
	}
	return server, worker
}

const tree33 = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, for_each: numbers 8, input: {description: 'c {{.Item}}', prompt: p, subagent_type: explore}}]
  - text: done
`

// TestAWorkerNeedsNoMoreOfRedis runs a tree with a worker that has the rights that
// are shipped: Redis refuses it nothing.
func TestAWorkerNeedsNoMoreOfRedis(t *testing.T) {
	t.Parallel()
	server, own := guarded(t)
	log := slog.New(slog.DiscardHandler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	played, err := scripted.Parse("scenario.yaml", []byte(tree33))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := assembly.Connect(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	serving, stopServing := context.WithCancel(context.WithoutCancel(t.Context()))
	working, stopWorking := context.WithCancel(context.WithoutCancel(t.Context()))
	var g errgroup.Group
	served := make(chan struct{})
	g.Go(func() error {
		return assembly.Orchestrator{
			Database: filepath.Join(t.TempDir(), "coppice.db"), Installation: "acl", Redis: server.Client(), Pool: assembly.DefaultPool,
			Limits: tree.DefaultLimits(), Listeners: []net.Listener{l}, Logger: log,
		}.Run(serving, func() { close(served) })
	})
	<-served
	limits := ratelimit.New(log)
	g.Go(func() error {
		return assembly.Worker{
			Orchestrator: conn, Redis: own, Pool: assembly.DefaultPool, Slots: 4, Workspace: t.TempDir(),
			Model: scripted.New(played), Limiter: limits, Logger: log,
		}.Run(working)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	opened, err := pb.NewSessionServiceClient(conn).CreateSession(ctx, &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "go"}})
	if err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		resp, err := pb.NewTaskServiceClient(conn).WaitTask(ctx, &pb.WaitTaskRequest{SessionId: opened.GetSession().GetId()})
		if err != nil {
			t.Fatal(err)
		}
		ended = resp.GetEnded()
		if root := resp.GetTask(); ended && root.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("the root is %s: %s", root.GetState(), root.GetDetail())
		}
	}
	pass, err := limits.Acquire(ctx, "openai:0123456789abcdef", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	pass.ReportRefusal(ctx, time.Hour)
	waiting, leave := context.WithCancel(ctx)
	if _, err := limits.Acquire(waiting, "openai:0123456789abcdef", "", func(time.Duration) { leave() }); !errors.Is(err, context.Canceled) {
		t.Errorf("who left went on with %v", err)
	}
	takeOver(ctx, t, own)
	interrupt(ctx, t, server.Client(), own)
	stopWorking() // it leaves its group, by a script
	stopServing()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	denied, err := server.Client().Do(ctx, "acl", "log").Slice()
	if err != nil || len(denied) != 0 {
		t.Errorf("Redis has refused the worker %v, %v", denied, err)
	}
	if n, err := server.Client().Exists(ctx, "coppice:{acl}:ready:default", "coppice:{acl}:rate:openai:0123456789abcdef:limit").Result(); err != nil || n != 2 {
		t.Errorf("of the keys that the worker uses there are %d, %v", n, err)
	}
}

// takeOver does what a worker does with the hints of a dead one.
func takeOver(ctx context.Context, t *testing.T, own *redis.Client) {
	t.Helper()
	bus := busOf(t, own)
	if _, err := bus.Pull(ctx, "new", "c", 1, 0); err != nil {
		t.Error(err)
	}
	if _, err := bus.TakeOver(ctx, "new", "c", 0, 1); err != nil {
		t.Error(err)
	}
	if err := errors.Join(bus.Done(ctx, "new", "1-1"), bus.Forget(ctx, "new", "c")); err != nil {
		t.Error(err)
	}
}

// interrupt does what a worker does that stops while it reads hints: it gets those that Redis has
// handed to it by then.
func interrupt(ctx context.Context, t *testing.T, all, own *redis.Client) {
	t.Helper()
	announcer, worker := busOf(t, all), busOf(t, own)
	hint := dispatch.Hint{Session: tree.SessionID(uuid.New()), Task: tree.TaskID(uuid.New()), Epoch: 1}
	for range 100 {
		if err := announcer.Announce(ctx, "new", []dispatch.Hint{hint}); err != nil {
			t.Fatal(err)
		}
		if found, err := worker.Pull(ctx, "new", "c", 1, time.Minute); err != nil || len(found) != 1 {
			t.Fatalf("pulled %v, %v", found, err)
		}
		stopping, stop := context.WithCancel(ctx)
		go stop()
		// The hint that was read just before is among those that may have been handed over.
		found, err := worker.Pull(stopping, "new", "c", 1, time.Minute)
		if len(found) == 1 && found[0].Hint == hint {
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("an interrupted pull got %v, %v", found, err)
		}
	}
	t.Error("an interrupted pull never got the hint that Redis had handed to it")
}

func busOf(t *testing.T, client *redis.Client) *dispatch.Bus {
	t.Helper()
	bus, err := dispatch.New(dispatch.Config{Client: client, Installation: "acl"})
	if err != nil {
		t.Fatal(err)
	}
	return bus
}

// TestAWorkerGetsNoMoreOfRedis tries what a worker has no business with.
func TestAWorkerGetsNoMoreOfRedis(t *testing.T) {
	t.Parallel()
	_, own := guarded(t)
	stream, rate := "coppice:{acl}:ready:default", "coppice:{acl}:rate:openai:0"
	for _, c := range [][]any{
		{"xadd", stream, "*", "session", "s"}, {"xtrim", stream, "maxlen", "0"}, {"del", stream}, {"unlink", stream}, {"xgroup", "destroy", stream, "workers"},
		{"xgroup", "setid", stream, "workers", "0"}, {"xrange", stream, "-", "+"}, {"xinfo", "stream", stream}, {"rename", stream, "x"}, {"expire", stream, "1"},
		{"hset", stream, "a", "b"}, {"del", rate}, {"hset", "other", "a", "b"}, {"hgetall", "other"}, {"xack", rate, "workers", "1-1"}, {"xdel", "other", "1-1"},
		{"xreadgroup", "group", "workers", "c", "streams", "other", ">"}, {"get", "other"}, {"set", stream + "x", "y"}, {"set", "other", "y"},
		{"publish", "coppice:{acl}:nudge", "x"}, {"subscribe", "coppice:{acl}:nudge"}, {"psubscribe", "*"},
		{"eval", "return redis.call('del', KEYS[1])", "1", stream}, {"eval", "return redis.call('get', 'other')", "0"}, {"eval", "return 1", "1", "other"},
		{"eval", "return redis.call('hset', KEYS[1], 'a', 'b')", "1", stream}, {"function", "list"}, {"script", "flush"},
		{"keys", "*"}, {"scan", "0"}, {"randomkey"}, {"dbsize"}, {"flushall"}, {"flushdb"}, {"select", "1"}, {"swapdb", "0", "1"}, {"multi"},
		{"config", "get", "*"}, {"config", "set", "maxmemory", "1"}, {"acl", "list"}, {"acl", "whoami"}, {"client", "list"}, {"client", "kill", "type", "normal"},
		{"info"}, {"monitor"}, {"shutdown", "nosave"}, {"replicaof", "no", "one"}, {"save"}, {"slowlog", "get"}, {"module", "list"},
	} {
		err := own.Do(t.Context(), c...).Err()
		if err == nil || !redis.HasErrorPrefix(err, "NOPERM") && !strings.Contains(err.Error(), "The user executing the script can't") {
			t.Errorf("%s: %v", fmt.Sprint(c...), err)
		}
	}
}
