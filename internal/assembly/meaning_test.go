package assembly_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestAnOrchestratorRefusesWhatHasNoMeaning rather than to serve and do something else, or
// nothing at all.
func TestAnOrchestratorRefusesWhatHasNoMeaning(t *testing.T) {
	t.Parallel()
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	for says, change := range map[string]func(*assembly.Orchestrator){
		"(--max-tenant) is -3": func(o *assembly.Orchestrator) { o.RunningOfTenant = -3 },
		"(--max-all) is -1":    func(o *assembly.Orchestrator) { o.RunningInAll = -1 },
		`not "Tools"`:          func(o *assembly.Orchestrator) { o.Pool = "Tools" },
		"is -1h0m0s, must":     func(o *assembly.Orchestrator) { o.RetainSessions = -time.Hour },
		`not ""`:               func(o *assembly.Orchestrator) { o.Pool = "" },
		"--agents-dir: ":       func(o *assembly.Orchestrator) { o.AgentsDirs = []string{"nowhere"} },
		"--plugins-dir: ":      func(o *assembly.Orchestrator) { o.PluginsDir = "nowhere" },
	} {
		o := assembly.Orchestrator{
			Database: filepath.Join(t.TempDir(), "coppice.db"), Redis: redis.Client(), Pool: assembly.DefaultPool,
			Limits: tree.DefaultLimits(), Logger: quiet(t),
		}
		change(&o)
		ctx, stop := context.WithCancel(t.Context())
		err := o.Run(ctx, stop) // if it serves it ends, without an error
		stop()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it ended with %v, want: %s", err, says)
		}
	}
}

// TestAWorkerRefusesWhatHasNoMeaning rather than to ask for runs.
func TestAWorkerRefusesWhatHasNoMeaning(t *testing.T) {
	t.Parallel()
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	conn, err := assembly.Connect(proctest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for says, change := range map[string]func(*assembly.Worker){
		`not "gpu_pool"`: func(w *assembly.Worker) { w.Pool = "gpu_pool" },
		"timeout -5s ":   func(w *assembly.Worker) { w.DrainFor = -5 * time.Second },
		`not ""`:         func(w *assembly.Worker) { w.Pool = "" },
		"--skills-dir: ": func(w *assembly.Worker) { w.SkillsDirs = []string{"nowhere"} },
	} {
		ctx, stop := context.WithCancel(t.Context())
		w := assembly.Worker{
			Orchestrator: conn, Redis: redis.Client(), Pool: assembly.DefaultPool, Slots: 1, Workspace: t.TempDir(),
			Model: scripted.New(scripted.Survey()), Logger: quiet(t), OnReady: stop, // it ends, without an error
		}
		change(&w)
		err := w.Run(ctx)
		stop()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it ended with %v, want: %s", err, says)
		}
	}
}

// TestConnectRefusesAnAddressThatCannotBe, since it could never be reached.
func TestConnectRefusesAnAddressThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"", "127.0.0.1:1,,127.0.0.1:2", "127.0.0.1:1, ", ",127.0.0.1:1", "dns:///a:1,dns:///b:1"} {
		if conn, err := assembly.Connect(target); err == nil {
			conn.Close()
			t.Errorf("%q is taken", target)
		}
	}
}

// TestAddressesMayHaveSpacesBetweenThem, as people write lists: each of them is reached.
func TestAddressesMayHaveSpacesBetweenThem(t *testing.T) {
	t.Parallel()
	reached := listen(t)
	defer reached.Close()
	conn, err := assembly.Connect(proctest.FreeAddress(t) + ", " + reached.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Connect()
	if err := reached.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if made, err := reached.Accept(); err != nil {
		t.Errorf("nobody came: %v", err)
	} else {
		made.Close()
	}
}
