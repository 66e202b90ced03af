package assembly

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/flags"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/mcp"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/governor"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/worker"
	"github.com/coppice-run/coppice/internal/workspace"
)

// Worker is a worker process.
type Worker struct {
	Orchestrator grpc.ClientConnInterface
	Redis        *redis.Client
	Pool         string
	Slots        int
	Workspace    string   // the directory that all sessions work in
	Workspaces   string   // or: the one below which each session has its own
	SkillsDirs   []string // directories of skills, beside those of the workspace
	PluginsDir   string   // directory of plugins, which may hold skills; empty: none
	Model        model.Model
	Governor     *governor.Governor // of the model; it learns from all workers of the installation; nil: none
	Tools        []tool.Tool        // beside those that are built in
	MCP          []mcp.Server       // whose tools agents may use
	Hooks        []hook.Spec        // on the start and stop of sub-agents
	// DefinitionHooks lets the hooks run that come with agents' definitions.
	DefinitionHooks bool
	Secrets         *redact.Redactor // that leave the worker on no way; nil: none are known
	FetchAllow      []string         // what web_fetch may reach beside the internet: globs of hosts, ranges of addresses
	// Health answers questions about health: "" is the process, "orchestrator" that
	// there is one; nil: none.
	Health net.Listener
	// Alive tells whoever connects that the process lives (see package alive), so that
	// its runs need not wait once it is dead; nil: nowhere.
	Alive        net.Listener
	OnReady      func()               // called once all is in order and it is about to ask for runs; nil: nobody wants to know
	DrainFor     time.Duration        // for so long, once it is to end, it goes on with the runs that it has
	StopDraining <-chan struct{}      // closed once it is to do so no longer; nil: never before
	BashNetwork  bool                 // commands may use the network
	Telemetry    *telemetry.Telemetry // nil: nobody measures
	Sandbox      sandbox.Options
	Logger       *slog.Logger
	Now          func() time.Time // nil: time.Now
}

// Run works until ctx ends, or until it has been drained.
func (w Worker) Run(ctx context.Context) error {
	heapBallast()
	told := ctx
	ctx, stop := context.WithCancel(context.WithoutCancel(told))
	defer stop()
	if w.DrainFor < 0 {
		return fmt.Errorf("the worker is to drain for %s, must not be negative: 0 gives all back at once", w.DrainFor)
	}
	private, err := outbound.ParseDestinations(w.FetchAllow)
	if err != nil {
		return fmt.Errorf("what may be fetched beside the internet: %w", err)
	}
	if err := w.checkDirs(); err != nil {
		return err
	}
	confined, err := w.newSandbox(ctx)
	if err != nil {
		return err
	}
	places, err := workspace.New(workspace.Config{Dir: w.Workspace, Root: w.Workspaces, Sandbox: confined})
	if err != nil {
		return err
	}
	hooks := hook.New(hook.Config{Specs: w.Hooks, Definitions: w.DefinitionHooks, Environ: os.Environ()})
	defer hooks.Close()
	tools := append(tool.Builtin(), tool.NewWebFetch(private), tool.NewBash(confined, w.BashNetwork, w.Secrets))
	servers, stopServers, err := w.mcp(ctx, confined)
	if err != nil {
		return err
	}
	// Runs use the servers until the last has ended.
	defer stopServers()
	observe, err := w.observer()
	if err != nil {
		return err
	}
	id := w.name()
	of, reached := newWorkerHealth()
	run, err := worker.New(worker.Config{
		ID: id, AlivePort: alive.Port(w.Alive), Pool: w.Pool, Slots: w.Slots, Version: flags.Version(),
		Client: pb.NewWorkerServiceClient(w.Orchestrator),
		Bus:    w.bus, Model: w.Model, Tools: append(tools, w.Tools...), ToolSource: servers,
		Places: places, Hooks: hooks, Secrets: w.Secrets, Logger: w.Logger, Now: w.Now, Observe: observe, OnReachable: reached,
		SkillsDirs: w.SkillsDirs, PluginsDir: w.PluginsDir,
	})
	if err != nil {
		return err
	}
	if err := w.measureSlots(run); err != nil {
		return err
	}
	defer serveHealth(ctx, w.Health, of, w.Logger)()
	defer of.Shutdown()
	defer w.serveAlive(ctx, id)()
	defer context.AfterFunc(told, func() { w.drainAndStop(ctx, run, stop) })()
	w.notifyReady()
	return run.Run(ctx)
}

// missing reports a directory that a flag names and that is not there.
func (w Worker) checkDirs() error {
	return cmp.Or(
		checkDirs("--workspace", w.Workspace), checkDirs("--workspaces", w.Workspaces),
		checkDirs("--skills-dir", w.SkillsDirs...), checkDirs("--plugins-dir", w.PluginsDir),
	)
}

// bus is that of an installation, over which workers also share the rate limits of providers.
func (w Worker) bus(installation string) (*dispatch.Bus, error) {
	bus, err := dispatch.New(dispatch.Config{Client: w.Redis, Installation: installation, Logger: w.Logger})
	if err == nil && w.Governor != nil {
		w.Governor.Share(w.Redis, bus.RateBucket)
	}
	return bus, err
}

// begun tells whoever wants to know that the worker is about to ask for runs.
func (w Worker) notifyReady() {
	if w.OnReady != nil {
		w.OnReady()
	}
}

// end stops the worker, but lets it drain first if it may.
func (w Worker) drainAndStop(ctx context.Context, run *worker.Worker, stop func()) {
	defer stop()
	if w.DrainFor <= 0 {
		return
	}
	run.Drain()
	select {
	case <-time.After(w.DrainFor):
	case <-w.StopDraining:
	case <-ctx.Done(): // it has drained
	}
}

// name is the worker's: the one that its spans have, so that a trace tells whose they
// are.
func (w Worker) name() string {
	if w.Telemetry != nil && w.Telemetry.Instance != "" {
		return w.Telemetry.Instance
	}
	return processName()
}

// confine makes ready what commands run in, and says how far it goes.
func (w Worker) newSandbox(ctx context.Context) (*sandbox.Sandbox, error) {
	config, err := w.Sandbox.Config(os.Environ(), cmp.Or(w.Workspaces, w.Workspace))
	if err != nil {
		return nil, err
	}
	config.Logger = w.Logger
	confined, err := sandbox.New(config)
	if err != nil {
		return nil, err
	}
	level := slog.LevelInfo
	if len(confined.Missing()) > 0 || confined.Mode() == sandbox.Off {
		level = slog.LevelWarn
	}
	w.Logger.Log(ctx, level, "how commands are confined", "sandbox", confined.String())
	return confined, nil
}

// tellAlive tells that the process lives until stop is called, which waits.
func (w Worker) serveAlive(ctx context.Context, id string) (stop func()) {
	if w.Alive == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		alive.Answer(ctx, w.Alive, id, w.Logger)
	}()
	return func() {
		if err := w.Alive.Close(); err != nil {
			w.Logger.WarnContext(ctx, "closing the port at which the process tells that it lives failed", "error", err)
		}
		<-done
	}
}

// observed makes calls of the model and of tools spans, if somebody measures.
func (w *Worker) observer() (loop.Observer, error) {
	if w.Telemetry == nil {
		return nil, nil
	}
	var err error
	w.Model, err = w.Telemetry.Model(w.Model)
	return w.Telemetry, err
}

// measure counts the slots in use, if somebody measures.
func (w Worker) measureSlots(run *worker.Worker) error {
	if w.Telemetry == nil {
		return nil
	}
	if err := w.Telemetry.Slots(w.Pool, w.Slots, run.Busy); err != nil {
		return fmt.Errorf("measuring slots: %w", err)
	}
	return nil
}

// mcp starts keeping the MCP servers, until stop is called. They are shared by all runs,
// so they work in the worker's own directory. If that has those of sessions in it, each
// has another one to itself unless it is configured to work there.
func (w Worker) mcp(ctx context.Context, box *sandbox.Sandbox) (_ *mcp.Servers, stop func(), _ error) {
	dir, err := filepath.Abs(cmp.Or(w.Workspaces, w.Workspace))
	if err != nil {
		return nil, nil, fmt.Errorf("finding the workspace: %w", err)
	}
	servers, err := mcp.New(mcp.Config{Servers: w.MCP, Sandbox: box, Workspace: dir, Apart: w.Workspaces != "", Logger: w.Logger})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { servers.Run(ctx) })
	return servers, func() {
		cancel()
		keeping.Wait()
	}, nil
}
