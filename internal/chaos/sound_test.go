package chaos_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/chaos"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/sandbox"
	core "github.com/coppice-run/coppice/internal/tree"
)

// caps are those of the installations that are put to the test: small enough to
// be reached.
func caps() core.Limits {
	limits := core.DefaultLimits()
	limits.Width, limits.Running = 8, 6
	return limits
}

// recorded is the evidence of a real run, by shape.
type recorded struct {
	evidence map[string]*chaos.Evidence
	records  []chaos.Record
}

// record runs an installation in this process, lets clients grow a tree of each
// shape, cuts the worker's link in the middle, and collects what there is to know.
func record(t *testing.T, disturb bool) *recorded {
	t.Helper()
	dir := t.TempDir()
	house := start(t, dir)
	log, err := chaos.OpenLog(filepath.Join(dir, "clients.log"))
	if err != nil {
		t.Fatal(err)
	}
	crowd := newCrowd(house.client, log, t.Name(), newCounts())
	crowd.calm, crowd.mischief = !disturb, nothing
	if disturb {
		crowd.mischief = someOfEach
	}
	var growing errgroup.Group
	for i, shape := range shapes() {
		growing.Go(func() error { return crowd.grow(t.Context(), rand.New(rand.NewPCG(1, uint64(i))), shape) })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := growing.Wait(); err != nil {
			t.Error(err)
		}
	}()
	if disturb {
		house.cutInTheMiddle(crowd, done)
	}
	<-done
	if err := house.witness.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := &recorded{evidence: map[string]*chaos.Evidence{}}
	if out.records, err = chaos.ReadLogs(dir); err != nil {
		t.Fatal(err)
	}
	sorted := chaos.BySession(out.records)
	for id, shape := range crowd.all() {
		e, err := chaos.NewCollector(house.client, caps()).Collect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		e.Quiet, e.Calm, e.Records = true, !disturb, sorted[id]
		out.evidence[shape] = e
	}
	return out
}

func nothing(*tree) []act { return nil }

// someOfEach does all that a client can do, and leaves most trees alone.
func someOfEach(t *tree) []act {
	switch t.shape {
	case "wide":
		return []act{{5, (*tree).launch}, {10, (*tree).say}, {15, (*tree).launch}}
	case "deep":
		return []act{{20, (*tree).cancelTask}, {30, (*tree).steer}}
	case "chain 4":
		return []act{{12, (*tree).cancelRoot}}
	case "crowded":
		return []act{{40, (*tree).close}}
	case "scarce":
		return []act{{16, (*tree).raiseBudget}}
	case "waiting":
		return []act{{10, (*tree).branch}, {20, (*tree).branch}, {25, (*tree).say}, {30, (*tree).branch}, {35, (*tree).selectRoot}}
	}
	return nil
}

// house is an installation in this process.
type house struct {
	client  *grpc.ClientConn
	link    *chaos.Link // of the worker
	witness *chaos.Witness
}

func start(t *testing.T, dir string) *house {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	scenario, err := scripted.Load("testdata/scenario.yaml")
	must(err)
	hooks, err := hook.Load("testdata/hooks.yaml")
	must(err)
	redis, err := dispatch.OpenEmbedded()
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	link, err := chaos.OpenLink(t.Context(), listener.Addr().String())
	must(err)
	records, err := chaos.OpenLog(filepath.Join(dir, "worker.log"))
	must(err)
	witness := chaos.NewWitness(records, "worker")
	client, err := assembly.Connect("passthrough:///" + listener.Addr().String())
	must(err)
	work, err := assembly.Connect("passthrough:///"+link.Addr(), grpc.WithStreamInterceptor(witness.Streams()))
	must(err)

	quiet := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := (assembly.Orchestrator{
			Database: filepath.Join(dir, "coppice.db"), Redis: redis.Client(), Pool: assembly.DefaultPool,
			AgentsDirs: []string{"testdata/agents"}, Limits: caps(), Listeners: []net.Listener{listener}, Logger: quiet,
		}).Run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	parts.Go(func() {
		if err := (assembly.Worker{
			Orchestrator: work, Redis: redis.Client(), Pool: assembly.DefaultPool, Slots: 8, Workspaces: t.TempDir(), Hooks: hooks, Sandbox: sandbox.Options{Sandbox: "off"},
			Model: witness.Model(scripted.New(scenario)), Tools: witness.Tools(), Logger: quiet,
		}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		parts.Wait()
		for _, c := range []interface{ Close() error }{client, work, link, redis, records} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	<-ready
	return &house{client: client, link: link, witness: witness}
}

// cutInTheMiddle breaks the worker's link a few times while clients see more and
// more events.
func (h *house) cutInTheMiddle(c *crowd, done <-chan struct{}) {
	for range 3 {
		select {
		case <-c.milepost:
			h.link.Cut()
		case <-done:
		}
	}
}

// TestSoundEvidence holds a real run, in which the link of the worker breaks,
// against all rules.
func TestSoundEvidence(t *testing.T) {
	t.Parallel()
	calm, found := record(t, false), record(t, true)
	var figures chaos.Figures
	for shape, e := range found.evidence {
		e.Undisturbed = chaos.TrajectoryOf(calm.evidence[shape])
		for _, v := range chaos.Check(e) {
			t.Errorf("%s: %s", shape, v)
		}
		figures.Add(e)
	}
	for _, v := range chaos.CheckKeys(found.records) {
		t.Error(v)
	}
	for shape, e := range calm.evidence {
		for _, v := range chaos.Check(e) {
			t.Errorf("%s, undisturbed: %s", shape, v)
		}
	}
	if figures.Redelivered+figures.Reattached == 0 || figures.Asked == 0 || figures.Effects == 0 || figures.Summaries == 0 || figures.Acknowledged == 0 {
		t.Errorf("it proves nothing: %+v", figures)
	}
	t.Log(figures)
}
