package assembly_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/chaos"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// restart starts everything on a data directory that may have been used before.
func restart(t *testing.T, dir, scenario string) (*client, *assembly.Running) {
	t.Helper()
	played, err := scripted.Parse("scenario.yaml", []byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	running, err := assembly.StartDev(t.Context(), assembly.Dev{
		DataDir: dir, Workspace: dir, Model: scripted.New(played), Slots: 4,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, running.Conn()), running
}

// TestCleanStopsAreNobodysFault stops everything in good order, more often than a
// run may lose its worker, while a model call is under way.
func TestCleanStopsAreNobodysFault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	session := ""
	for round := range 5 {
		c, running := restart(t, dir, `steps: [{delay: 1h, text: late}]`)
		if round == 0 {
			session = c.create("go").GetId()
		}
		dispatched := 0
		c.events(session, func(e *pb.Event) bool {
			if e.GetDispatched() != nil {
				dispatched++
			}
			return dispatched == round+1
		})
		if err := running.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	c, running := restart(t, dir, `steps: [{text: at last}]`)
	if root := c.wait(session, ""); root.GetResult() != "at last" {
		t.Errorf("the root ended %s %s: %s", root.GetState(), root.GetReason(), root.GetDetail())
	}
	c.sound()
	if err := running.Stop(); err != nil {
		t.Error(err)
	}
}

// TestStopUnderLoad stops while claims are on their way; what is left goes on
// afterwards.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 6 {
		c, running := restart(t, dir, `steps: [{text: done}]`)
		var load sync.WaitGroup
		started := make(chan struct{})
		var once sync.Once
		for range 8 {
			load.Go(func() {
				for {
					_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "go"}})
					if err != nil {
						return // it stops
					}
					once.Do(func() { close(started) })
				}
			})
		}
		<-started
		if err := running.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		load.Wait()
	}
	c, running := restart(t, dir, `steps: [{text: done}]`)
	list, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.GetSessions() {
		if root := c.wait(s.GetId(), ""); root.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("session %s ended %s: %s", s.GetId(), root.GetState(), root.GetDetail())
		}
	}
	c.sound()
	if err := running.Stop(); err != nil {
		t.Error(err)
	}
}

// TestWaitSeesTheRunItWaitsFor: the next run may start in the same step in which
// the awaited one ends.
func TestWaitSeesTheRunItWaitsFor(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {turn: 1}
    delay: 500ms
    text: first
  - {delay: 1h, text: second}
`, nil)
	session := c.create("go").GetId()
	waited := make(chan *pb.WaitTaskResponse, 1)
	go func() {
		resp, err := c.WaitTask(c.ctx(), &pb.WaitTaskRequest{SessionId: session, Timeout: durationpb.New(patience)})
		if err != nil {
			t.Error(err)
		}
		waited <- resp
	}()
	if _, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "and"}}); err != nil {
		t.Fatal(err)
	}
	resp := <-waited
	if !resp.GetEnded() || resp.GetTask().GetRun() != 1 || resp.GetTask().GetResult() != "first" {
		t.Errorf("the wait for run 1 gave %v", resp)
	}
}

// TestAnOrchestratorMayBeStoppedAtOnce: it ends in good order however early it is asked to.
func TestAnOrchestratorMayBeStoppedAtOnce(t *testing.T) {
	t.Parallel()
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	for range 5 {
		ctx, stop := context.WithCancel(t.Context())
		dev := assembly.Dev{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
		if err := dev.Orchestrator(redis.Client(), bufconn.Listen(1<<10)).Run(ctx, stop); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnOrchestratorStopsWithASilentConnection: something only connects, which keeps it from nothing.
func TestAnOrchestratorStopsWithASilentConnection(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	p, addr := a.orchestrator()
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a.client(addr).create("") // over a connection that is accepted after the silent one
	p.cancel()
	select {
	case <-p.done:
	case <-time.After(time.Minute): // gRPC would wait for two
		t.Fatal("it does not stop")
	}
}

// TestTheLastMetricsAreSentDespiteASilentConnection: an orchestrator that sends metrics only when it
// stops does so although something is connected to its page, and says nothing.
func TestTheLastMetricsAreSentDespiteASilentConnection(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	sink, page := otlptest.Start(t), proctest.FreeAddress(t)
	d.environ = map[string][]string{"": {"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.Endpoint(), "OTEL_METRIC_EXPORT_INTERVAL=3600000"}}
	d.orchestratorFlags = []string{"--metrics-listen", page}
	d.startOrchestrator(0)
	d.client().create("go")
	silent, err := net.Dial("tcp", page)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	get(t, page) // over a connection that is accepted after the silent one
	d.terminate("orchestrator 1")
	if len(sink.Metrics()) == 0 {
		t.Error("it has sent no metrics")
	}
}

// TestAnOrchestratorMayBeStoppedWhileItStarts: a database that stops responding just then does not keep it.
func TestAnOrchestratorMayBeStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	server := pgtest.Start(t)
	between := link(t, server.Addr())
	ctx, stop := context.WithCancel(t.Context())
	o := assembly.Orchestrator{
		Database: strings.Replace(server.Database(t), server.Addr(), between.Addr(), 1), Redis: redis.Client(), Pool: assembly.DefaultPool,
		Limits: tree.DefaultLimits(), Logger: slog.New(slog.DiscardHandler),
		OnOpen: func(*store.Store) {
			between.Set(chaos.BlackHole())
			stop()
		},
	}
	if err := o.Run(ctx, func() { t.Error("it serves") }); err != nil {
		t.Error(err)
	}
}
