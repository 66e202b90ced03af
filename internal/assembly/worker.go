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
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/worker"
	"github.com/coppice-run/coppice/internal/workspace"
)

// MaxSlots is the greatest number of slots of a worker.
const MaxSlots = worker.MaxSlots

// Worker configures a worker process.
type Worker struct {
	Orchestrator grpc.ClientConnInterface
	Redis        *redis.Client
	Pool         string
	Slots        int
	Workspace    string   // the directory that all sessions work in
	Workspaces   string   // or: the root of one directory for each session
	SkillsDirs   []string // directories of skills, in addition to those of the workspace
	PluginsDir   string   // directory of plugins, which may hold skills; empty: none
	Model        model.Model
	Limiter      *ratelimit.Limiter // of the model; shares rate limits with all workers of the installation; nil: none
	Tools        []tool.Tool        // in addition to the built-in ones
	MCP          []mcp.Server       // whose tools agents may use
	Hooks        []hook.Spec        // on the start and stop of sub-agents
	// DefinitionHooks enables the hooks in agents' definitions.
	DefinitionHooks bool
	Secrets         *redact.Redactor // never sent to an orchestrator or logged; nil: none are known
	FetchAllow      []string         // destinations that web_fetch may reach in addition to the internet: globs of hosts, ranges of addresses
	// Health answers health checks: "" is the process, "orchestrator" that there is one; nil:
	// none.
	Health net.Listener
	// Alive answers liveness checks (see package alive), so that the runs of a dead process are
	// given to other workers at once; nil: none.
	Alive        net.Listener
	OnReady      func()               // called before the worker asks for runs; nil: not called
	DrainFor     time.Duration        // how long to continue with current runs when told to stop
	StopDraining <-chan struct{}      // closed to end DrainFor early; nil: never
	BashNetwork  bool                 // commands may use the network
	Telemetry    *telemetry.Telemetry // nil: none
	Sandbox      sandbox.Options
	Alone        bool // nothing else needs this process: it may adapt its number of processors
	Logger       *slog.Logger
	Now          func() time.Time // nil: time.Now
}

// Run works until ctx ends, or until the worker has drained.
func (w Worker) Run(ctx context.Context) error {
	workerBallast()
	told := ctx
	ctx, stop := context.WithCancel(context.WithoutCancel(told))
	defer stop()
	if w.DrainFor < 0 {
		return fmt.Errorf("the drain timeout %s must not be negative: 0 returns all runs to the queue at once", w.DrainFor)
	}
	private, err := outbound.ParseDestinations(w.FetchAllow)
	if err != nil {
		return fmt.Errorf("the hosts that may be fetched (--fetch-allow): %w", err)
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
	hooks := hook.New(hook.Config{Specs: w.Hooks, Definitions: w.DefinitionHooks, Environ: os.Environ(), Secrets: w.Secrets})
	defer hooks.Close()
	tools := append(tool.Builtin(), tool.NewWebFetch(private), tool.NewBash(confined, w.BashNetwork, w.Secrets))
	servers, stopServers, err := w.mcp(ctx, confined)
	if err != nil {
		return err
	}
	// Runs use the servers until the last run has ended.
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
	if w.Alone {
		defer startAdapting(ctx)()
	}
	w.notifyReady()
	return run.Run(ctx)
}

// checkDirs returns an error if a directory that a flag names does not exist.
func (w Worker) checkDirs() error {
	return cmp.Or(
		checkDirs("--workspace", w.Workspace), checkDirs("--workspaces", w.Workspaces),
		checkDirs("--skills-dir", w.SkillsDirs...), checkDirs("--plugins-dir", w.PluginsDir),
	)
}

// bus opens the bus of an installation. Workers of an installation also share the rate limits of
// providers over it.
func (w Worker) bus(installation string) (*dispatch.Bus, error) {
	bus, err := dispatch.New(dispatch.Config{Client: w.Redis, Installation: installation, Logger: w.Logger})
	if err == nil && w.Limiter != nil {
		w.Limiter.Share(w.Redis, bus.RateBucket)
	}
	return bus, err
}

// notifyReady calls OnReady.
func (w Worker) notifyReady() {
	if w.OnReady != nil {
		w.OnReady()
	}
}

// drainAndStop stops the worker, after a drain if DrainFor allows it.
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

// name returns the worker's id. It is the instance of its telemetry if there is one, so that spans
// identify the worker.
func (w Worker) name() string {
	if w.Telemetry != nil && w.Telemetry.Instance != "" {
		return w.Telemetry.Instance
	}
	return processName()
}

// newSandbox prepares the sandbox of commands and logs how they are confined.
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

// serveAlive answers liveness checks until stop is called. stop waits.
func (w Worker) serveAlive(ctx context.Context, id string) (stop func()) {
	if w.Alive == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		alive.Respond(ctx, w.Alive, id, w.Logger)
	}()
	return func() {
		if err := w.Alive.Close(); err != nil {
			w.Logger.WarnContext(ctx, "closing the liveness port failed", "error", err)
		}
		<-done
	}
}

// observer makes model calls and tool calls spans and counts them, if that is exported.
func (w *Worker) observer() (loop.Observer, error) {
	if !w.Telemetry.Enabled() {
		return nil, nil
	}
	var err error
	w.Model, err = w.Telemetry.TraceModel(w.Model)
	return w.Telemetry, err
}

// measureSlots measures the slots in use, if there is telemetry.
func (w Worker) measureSlots(run *worker.Worker) error {
	if w.Telemetry == nil {
		return nil
	}
	if err := w.Telemetry.MeasureSlots(w.Pool, w.Slots, run.Busy); err != nil {
		return fmt.Errorf("measuring slots: %w", err)
	}
	return nil
}

// mcp starts the MCP servers. stop stops them. All runs share them, so they work in the worker's
// own directory. If that contains the directories of sessions, each server gets a directory of its
// own, unless it is configured to work there.
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
