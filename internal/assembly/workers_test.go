package assembly_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/sandbox"
)

// workers gives those that are listed: their slots and what they carry, and what is special.
func (c *client) workers() string {
	c.t.Helper()
	resp, err := c.ListWorkers(c.ctx(), &pb.ListWorkersRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	var listed []string
	for _, w := range resp.GetWorkers() {
		line := fmt.Sprint(w.GetRunning(), "/", w.GetSlots(), " ", cmp.Or(w.GetPool(), "?"), " at ", len(w.GetReplicaIds()))
		if w.GetId() == "" || !w.GetStartTime().IsValid() || w.GetVersion() == "" {
			c.t.Fatalf("a worker is listed as %v", w)
		}
		if w.GetDraining() {
			line += " draining"
		}
		listed = append(listed, line)
	}
	return strings.Join(listed, ", ")
}

// lists waits until all replicas list the same workers.
func lists(t *testing.T, clients []*client, want string) {
	t.Helper()
	got, reached := "", false
	defer func() {
		if !reached {
			t.Logf("they are %q", got)
		}
	}()
	for _, c := range clients {
		until(t, "the workers are "+want, func() bool { got = c.workers(); return got == want })
	}
	reached = true
}

func (c *client) stats() *pb.GetStatsResponse {
	c.t.Helper()
	resp, err := c.GetStats(c.ctx(), &pb.GetStatsRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// TestADrainedWorkerIsMissed where it has served from the process of the orchestrator.
func TestADrainedWorkerIsMissed(t *testing.T) {
	t.Parallel()
	var logged logs
	c := setup(t, `steps: [{text: ready}]`, func(d *assembly.Dev) { d.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	lists(t, []*client{c}, "0/16 default at 1")
	resp, err := c.ListWorkers(c.ctx(), &pb.ListWorkersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DrainWorker(c.ctx(), &pb.DrainWorkerRequest{WorkerId: resp.GetWorkers()[0].GetId()}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is said that the worker has drained", func() bool {
		return strings.Contains(logged.String(), `level=WARN msg="the worker in this process has drained`)
	})
}

// hold is a command that goes on until its directory has a file, which letGo makes.
const hold = `echo up; while [ ! -e go ]; do sleep 0.02; done; echo over`

func letGo(t *testing.T, workspace string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// at is for workers that work in a directory, and don't confine what they run.
func at(workspace string) func(*assembly.Worker) {
	return func(w *assembly.Worker) { w.Workspace, w.Sandbox = workspace, sandbox.Options{Sandbox: "off"} }
}

// TestAWorkerDrains asks a replica to have a worker drained that carries a run and a command
// in the background, and speaks to another replica as well: both go on to their ends there,
// and the worker ends then. What comes meanwhile is for others.
func TestAWorkerDrains(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.database = pgtest.Start(t).Database(t)
	_, one := a.orchestrator()
	_, two := a.orchestrator()
	clients := []*client{a.client(one), a.client(two)}
	c := clients[0]
	lists(t, clients, "")
	for _, c := range clients {
		until(t, "a replica knows of both", func() bool { return c.stats().GetReplicas() == 2 })
	}
	if s := c.stats(); s.GetWorkers() != 0 || s.GetOldestQueuedTime() != nil {
		t.Errorf("without workers the stats are %v", s)
	}
	workspace := t.TempDir()
	drained := a.worker(two, shells, at(workspace)) // the request goes to the other replica
	lists(t, clients, "0/8 default at 1")
	front, back := c.bypassing("front "+hold), c.bypassing("back "+hold)
	c.turn(back, 1)
	c.shell(back, "up")
	lists(t, clients, "2/8 default at 1")

	resp, err := c.ListWorkers(c.ctx(), &pb.ListWorkersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	id := resp.GetWorkers()[0].GetId()
	for range 2 {
		if _, err := c.DrainWorker(c.ctx(), &pb.DrainWorkerRequest{WorkerId: id}); err != nil {
			t.Fatal(err)
		}
	}
	lists(t, clients, "2/8 default at 1 draining")
	until(t, "the idle slots have gone", func() bool { return c.stats().GetSlots() == 1 })
	late := c.bypassing("front echo late")
	until(t, "a run waits", func() bool { s := c.stats(); return s.GetQueued() == 1 && s.GetOldestQueuedTime() != nil })
	a.worker(one, shells, func(w *assembly.Worker) { at(workspace)(w); w.Slots = 2 })
	if got := c.turn(late, 1); got != "late" {
		t.Errorf("what came later said %q", got)
	}
	letGo(t, workspace)
	if got := c.turn(front, 1); got != "up\nover" {
		t.Errorf("the run said %q", got)
	}
	has(t, "the news", c.turn(back, 2), "Your background command completed", `"summary":"up\nover\n"`)
	<-drained.done
	if drained.err != nil {
		t.Errorf("the worker ended: %v", drained.err)
	}
	lists(t, clients, "0/2 default at 1")
	for _, session := range []string{front, back, late} {
		for _, task := range c.tasks(session) {
			if task.GetEpoch() > int64(task.GetRun()) {
				t.Errorf("run %d of a task was delivered %d times", task.GetRun(), task.GetEpoch())
			}
		}
	}
	for _, id := range []string{id, "nobody"} {
		if _, err := c.DrainWorker(c.ctx(), &pb.DrainWorkerRequest{WorkerId: id}); status.Code(err) != codes.NotFound {
			t.Errorf("draining a worker that is not there: %v", err)
		}
	}
	if _, err := c.DrainWorker(c.ctx(), &pb.DrainWorkerRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("draining nobody: %v", err)
	}
}

// TestAWorkerToldToStopMayDrainFirst stops workers in the middle of a run: one that may
// take its time for that ends it, and one whose time is up, or who is told twice, gives it
// back.
func TestAWorkerToldToStopMayDrainFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		drainFor   time.Duration
		twice      bool
		deliveries int64
	}{"to the end": {patience, false, 1}, "time is up": {time.Millisecond, false, 2}, "told twice": {time.Hour, true, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := takeApart(t)
			_, address := a.orchestrator()
			c, workspace := a.client(address), t.TempDir()
			hurry := make(chan struct{})
			told := a.worker(address, shells, func(w *assembly.Worker) { at(workspace)(w); w.DrainFor, w.StopDraining = test.drainFor, hurry })
			session := c.bypassing("front " + hold)
			until(t, "the run is with the worker", func() bool { return c.stats().GetRunning() == 1 })
			told.cancel()
			if test.twice {
				lists(t, []*client{c}, "1/8 default at 1 draining")
				close(hurry)
			}
			if test.deliveries > 1 {
				<-told.done
				a.worker(address, shells, at(workspace))
			} else {
				lists(t, []*client{c}, "1/8 default at 1 draining")
			}
			letGo(t, workspace)
			c.turn(session, 1)
			<-told.done
			if told.err != nil {
				t.Errorf("the worker ended: %v", told.err)
			}
			if root := c.wait(session, ""); root.GetEpoch() != test.deliveries || root.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
				t.Errorf("the run ended %s after %d deliveries, not %d", root.GetState(), root.GetEpoch(), test.deliveries)
			}
		})
	}
}

// TestAWorkerOfAnotherPool is listed, but is no room for this one's runs.
func TestAWorkerOfAnotherPool(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	_, at := a.orchestrator()
	c := a.client(at)
	a.worker(at, `steps: [{text: done}]`, func(w *assembly.Worker) { w.Pool = "other" })
	lists(t, []*client{c}, "0/8 other at 1")
	session := c.bypassing("hello")
	until(t, "nothing is counted that could take the run", func() bool {
		s := c.stats()
		return s.GetSlots() == 0 && s.GetQueued() == 1 && s.GetHeld() == 0 && s.GetPool() == assembly.DefaultPool
	})
	a.worker(at, `steps: [{text: done}]`, nil)
	if got := c.turn(session, 1); got != "done" {
		t.Errorf("the run said %q", got)
	}
}
