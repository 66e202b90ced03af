package assembly_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/chaos"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// unending is a grace that no test sees the end of: a run that goes on elsewhere under
// it was not waiting for its worker.
const unending = 24 * time.Hour

// What an orchestrator says of the workers that it asks.
const (
	answersThere = "a worker answers where it says"
	answersNot   = "a worker does not answer where it says"
	isDead       = "a worker is dead"

	announcedAgain = "a dead worker had read hints"
)

// listening has orchestrators say everything, for the test to read.
func (a *apart) listening() *logs {
	l := &logs{}
	a.logger = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a.t.Cleanup(func() {
		if a.t.Failed() {
			a.t.Log(l)
		}
	})
	return l
}

func (l *logs) count(text string) int { return strings.Count(l.String(), text) }

// killed has a worker in a process of its own killed that carries three runs, once the
// orchestrator has said what it thinks of where that answers; the runs have to end with
// another worker.
func killed(t *testing.T, grace time.Duration, said string, flags ...string) *logs {
	t.Helper()
	d := deploy(t, `steps: [{delay: 1h, text: late}]`)
	a := takeApart(t)
	a.redis, a.grace = d.redis.Client(), grace
	log := a.listening()
	_, addr := a.orchestrator()
	d.addresses, d.workerFlags = []string{addr}, flags
	d.startWorker("worker 1")
	c := a.client(addr)
	var sessions []string
	for range 3 {
		session := c.create("go").GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetDispatched() != nil })
		sessions = append(sessions, session)
	}
	until(t, "the orchestrator has asked the worker", func() bool { return log.count(said) > 0 })
	if err := os.WriteFile(d.in("scenario.yaml"), []byte(`steps: [{text: at last}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	d.startWorker("worker 2")
	d.kill("worker 1")
	for _, session := range sessions {
		if root := c.wait(session, ""); root.GetResult() != "at last" || root.GetEpoch() != 2 {
			t.Errorf("the root ended %s with %q in delivery %d", root.GetState(), root.GetResult(), root.GetEpoch())
		}
	}
	c.sound()
	return log
}

// TestNobodyWaitsForTheDead kills a worker with runs: they go on elsewhere though the
// grace is not over.
func TestNobodyWaitsForTheDead(t *testing.T) {
	t.Parallel()
	log := killed(t, unending, answersThere)
	if n := log.count(isDead); n != 1 {
		t.Errorf("the worker was found dead %d times", n)
	}
}

// TestAWorkerThatCannotBeAskedGetsTheGrace kills workers that listen nowhere, or not on
// the host that their streams come from: nothing is concluded, and their runs wait.
func TestAWorkerThatCannotBeAskedGetsTheGrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ listen, said string }{
		"nowhere":   {"", ""}, // nothing is said of it
		"elsewhere": {"127.0.0.2:0", answersNot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := killed(t, 0, c.said, "--alive-listen="+c.listen)
			if n := log.count(isDead) + log.count(answersThere); n != 0 {
				t.Errorf("it was asked, and found alive or dead %d times", n)
			}
		})
	}
}

// TestHintsOfTheDeadAreAnnouncedAgain kills a worker that has read the hint of a run and has
// not claimed it: others hear of the run as soon as that is known.
func TestHintsOfTheDeadAreAnnouncedAgain(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{delay: 1h, text: late}]`)
	a := takeApart(t)
	a.redis, a.grace = d.redis.Client(), unending
	log := a.listening()
	_, addr := a.orchestrator()
	d.addresses, d.workerFlags = []string{addr}, []string{"--slots=1"}
	d.startWorker("worker 1")
	c := a.client(addr)
	carried, worker := c.create("go").GetId(), ""
	c.events(carried, func(e *pb.Event) bool {
		worker = e.GetDispatched().GetWorkerId()
		return worker != ""
	})
	until(t, "the orchestrator has asked the worker", func() bool { return log.count(answersThere) > 0 })
	stream, err := pb.NewWorkerServiceClient(a.connect(addr)).Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	welcome, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	bus, err := dispatch.New(dispatch.Config{Client: a.redis, Installation: welcome.GetWelcome().GetInstallationId()})
	if err != nil {
		t.Fatal(err)
	}
	read := c.create("go too").GetId()
	if found, err := bus.Pull(t.Context(), assembly.DefaultPool, worker, 1, time.Minute); err != nil || len(found) != 1 {
		t.Fatalf("in the name of the worker %v was read, %v", found, err)
	}
	if err := os.WriteFile(d.in("scenario.yaml"), []byte(`steps: [{text: at last}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	d.kill("worker 1")
	until(t, "the runs whose hints it had read are announced again", func() bool { return log.count(announcedAgain) == 1 })
	until(t, "it is no reader of the stream any more", func() bool {
		readers, err := a.redis.XInfoConsumers(t.Context(), "coppice:{"+welcome.GetWelcome().GetInstallationId()+"}:ready:"+assembly.DefaultPool, "workers").Result()
		return err == nil && !slices.ContainsFunc(readers, func(c redis.XInfoConsumer) bool { return c.Name == worker })
	})
	d.startWorker("worker 2")
	for _, session := range []string{carried, read} {
		if root := c.wait(session, ""); root.GetResult() != "at last" {
			t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
		}
	}
	c.sound()
}

// asked is a listener that counts who has connected.
type asked struct {
	net.Listener
	n atomic.Int64
}

func (a *asked) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.n.Add(1)
	}
	return conn, err
}

// TestACutWorkerKeepsItsRuns cuts the connection of a worker and lets it make no other,
// until it was asked a few times whether it lives. Then its runs go on where they are.
func TestACutWorkerKeepsItsRuns(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.grace = unending
	log := a.listening()
	_, addr := a.orchestrator()
	between := link(t, addr)
	l, err := alive.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := &asked{Listener: l}
	a.worker(between.Addr(), `steps: [{delay: 500ms, text: 'of {{.Prompt}}'}]`, func(w *assembly.Worker) { w.Alive = door })
	c := a.client(addr)
	var sessions []string
	for i := range 3 {
		session := c.create(fmt.Sprint(i)).GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetDispatched() != nil })
		sessions = append(sessions, session)
	}
	until(t, "the worker is verified", func() bool { return log.count(answersThere) > 0 })
	before := door.n.Load()
	between.Set(chaos.BlackHole())
	if between.Cut() == 0 {
		t.Error("nothing was cut")
	}
	until(t, "the worker was asked whether it lives", func() bool { return door.n.Load() >= before+3 })
	between.Set(chaos.Conditions{})
	for i, session := range sessions {
		root := c.wait(session, "")
		if root.GetResult() != fmt.Sprint("of ", i) || root.GetEpoch() != 1 {
			t.Errorf("root %d ended %s with %q in delivery %d", i, root.GetState(), root.GetResult(), root.GetEpoch())
		}
	}
	if n := log.count(isDead); n != 0 {
		t.Errorf("it was found dead %d times", n)
	}
	c.sound()
}
