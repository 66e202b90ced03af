package assembly_test

import (
	"context"
	"log/slog"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/anthropic"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/openai"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/retry"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/redistest"
	"github.com/coppice-run/coppice/internal/tree"
)

// apis make adapters; base is where a fake serves.
var apis = map[string]func(base string) (model.Model, error){
	"anthropic": func(base string) (model.Model, error) {
		return anthropic.New(anthropic.Config{
			Key: "k", BaseURL: base, Model: "fake", HTTP: upstream.NewClient(upstream.DefaultTimeouts()),
		})
	},
	"openai": func(base string) (model.Model, error) {
		return openai.New(openai.Config{
			Key: "k", BaseURL: base + "/v1", Model: "fake", HTTP: upstream.NewClient(upstream.DefaultTimeouts()),
		})
	},
}

// askFake has the model of dev asked of a fake, over the real wire.
func askFake(t *testing.T, dev *assembly.Dev, api string, fake *fakellm.Server) {
	t.Helper()
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	adapter, err := apis[api](server.URL)
	if err != nil {
		t.Fatal(err)
	}
	dev.Limiter = ratelimit.New(slog.New(slog.DiscardHandler))
	dev.Model, err = retry.New(retry.Config{
		Model: adapter, Limiter: dev.Limiter, Bucket: func(string) string { return "fake:0" },
		InitialPause: 50 * time.Millisecond, MaxPause: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longPatience is for what has to wait for a provider.
const longPatience = 5 * time.Minute

// settled waits until nothing is left to do, and gives the root with its answer.
func (c *client) settled(session string) *pb.Task {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), longPatience)
	defer cancel()
	stream, err := c.WatchSession(ctx, &pb.WatchSessionRequest{SessionId: session, UntilIdle: true})
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		if resp.GetIdle() != nil {
			return c.wait(session, "")
		}
	}
}

// allCompleted checks that the root has answered so, and that no task has failed.
func (c *client) allCompleted(session, want string) {
	c.t.Helper()
	if root := c.settled(session); root.GetState() != pb.TaskState_TASK_STATE_COMPLETED || root.GetResult() != want {
		c.t.Errorf("the root ended %s (%s) with:\n%s\nwant:\n%s", root.GetState(), root.GetDetail(), root.GetResult(), want)
	}
	for _, task := range c.tasks(session) {
		if task.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			c.t.Errorf("task %s ended %s: %s", task.GetDescription(), task.GetState(), task.GetDetail())
		}
	}
	c.sound()
}

// forest makes folders with files to survey.
func forest(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"README": "one\ntwo\n", "oak/a": "1\n2\n3\n", "oak/b": "TODO\n", "ash/deep/a": "x\n", "ash/wide/b": "y\ny\n",
		"ash/far/c": "z\n", "elm/a": "TODO TODO\n\n", "yew/a": "", "fir/a": "last",
	} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestASurveyThroughTroubles: with half of all requests going wrong, in every way
// there is, the report is the one of a survey without any.
func TestASurveyThroughTroubles(t *testing.T) {
	t.Parallel()
	workspace := forest(t)
	calm := setup(t, "steps: [{text: x}]", func(d *assembly.Dev) {
		d.Workspace, d.Model = workspace, scripted.New(scripted.Survey())
	})
	want := calm.settled(calm.create("Survey it").GetId()).GetResult()
	if !strings.Contains(want, "| **total** | **9** |") {
		t.Fatalf("the survey without troubles says:\n%s", want)
	}
	for api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			fake := fakellm.New(fakellm.Config{Model: scripted.New(scripted.Survey()), Fault: fakellm.RandomFaults(0.5, 7)})
			c := setup(t, "steps: [{text: x}]", func(d *assembly.Dev) {
				d.Workspace = workspace
				askFake(t, d, api, fake)
			})
			c.allCompleted(c.create("Survey it").GetId(), want)
			n := fake.Counts()
			t.Logf("%d requests, %d of them answered whole", n.Accepted, n.Completed)
			if n.Accepted < n.Completed*3/2 {
				t.Errorf("of %d requests %d were answered whole: there was not much trouble", n.Accepted, n.Completed)
			}
		})
	}
}

// busy is a root with 120 children that make six calls each.
const busy = `
steps:
  - when: {depth: 0, turn: 1}
    calls:
      - {tool: task, for_each: numbers 120, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore}}
  - when: {depth: 0}
    text: 'joined {{len (results "task")}}'
  - when: {turn: ..5}
    calls: [{tool: ls, input: {path: .}}]
  - text: done
`

// busyRun runs it against a fake that takes so many requests a second, and calls at
// for each of them.
func busyRun(t *testing.T, api string, rate float64, redisURL string, at func(n int64, fake *fakellm.Server)) *fakellm.Server {
	t.Helper()
	played, err := scripted.Parse("busy.yaml", []byte(busy))
	if err != nil {
		t.Fatal(err)
	}
	var fake *fakellm.Server
	fake = fakellm.New(fakellm.Config{
		Model: scripted.New(played), Rate: rate, Fault: func(n int64) fakellm.Fault {
			at(n, fake)
			return fakellm.Fault{}
		},
	})
	limits := tree.DefaultLimits()
	limits.Running = 200
	c := setup(t, busy, func(d *assembly.Dev) {
		d.Slots, d.Limits, d.RedisURL = 130, &limits, redisURL
		askFake(t, d, api, fake)
	})
	c.allCompleted(c.create("go").GetId(), "joined 120")
	return fake
}

// TestACrowdMeetsARateLimit: 120 agents at once, more than the provider takes. Once
// it is known how much that is, they wait for their turn instead of being refused.
func TestACrowdMeetsARateLimit(t *testing.T) {
	t.Parallel()
	const rate, warm = 15, 150 // warm is what is taken in ten seconds
	for api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			var learned, first atomic.Int64 // how many were taken, and refused, when it was known
			learned.Store(math.MaxInt64)
			fake := busyRun(t, api, rate, "", func(n int64, fake *fakellm.Server) {
				limited := fake.Counts().Limited
				if limited > 0 {
					learned.CompareAndSwap(math.MaxInt64, n+warm)
				}
				if n == learned.Load() {
					first.Store(limited)
				}
			})
			n := fake.Counts()
			late, after := n.Limited-first.Load(), n.Accepted-learned.Load()
			t.Logf("%d requests taken; %d refused until %d were taken, %d in the %d after", n.Accepted, first.Load(), learned.Load(), late, after)
			if after < warm {
				t.Fatalf("the limit was met only when %d were taken", learned.Load()-warm)
			}
			// Next to nobody is measured where time stands still while somebody computes, in
			// the governor's own tests: requests that wait here for a processor arrive in
			// clumps. A crowd without a governor has twice as many refused as taken.
			if late*int64(often(2, 100)) >= after {
				t.Errorf("%d of %d requests were refused when the limit was known", late, after)
			}
		})
	}
}

// TestARateLimitWithoutRedis: the agents that run go on while Redis is gone.
func TestARateLimitWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	kill, restart := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-kill
		server.Kill()
		<-restart
		server.Restart()
	}()
	fake := busyRun(t, "anthropic", 40, server.URL(), func(n int64, _ *fakellm.Server) {
		switch n {
		case 250:
			close(kill)
		case 350:
			close(restart)
		}
	})
	<-done
	n := fake.Counts()
	t.Logf("%d requests taken, %d refused", n.Accepted, n.Limited)
}
