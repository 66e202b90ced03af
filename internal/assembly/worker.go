package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/governor"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/worker"
	"github.com/coppice-run/coppice/internal/workspace"
)

// Worker is a worker process.
type Worker struct {
	Orchestrator grpc.ClientConnInterface
	Redis        redis.UniversalClient
	Pool         string
	Slots        int
	Workspace    string   // the directory that all sessions work in
	Workspaces   string   // or: the one below which each session has its own
	SkillsDirs   []string // directories of skills, beside those of the workspace
	PluginsDir   string   // directory of plugins, which may hold skills; empty: none
	Model        model.Model
	Governor     *governor.Governor // of the model; it learns from all workers of the installation; nil: none
	Tools        []tool.Tool        // beside those that are built in
	Hooks        []hook.Spec        // on the start and stop of sub-agents
	// DefinitionHooks lets the hooks run that come with agents' definitions.
	DefinitionHooks bool
	FetchAllow      []string // what web_fetch may reach beside the internet: globs of hosts, ranges of addresses
	Logger          *slog.Logger
	Now             func() time.Time // nil: time.Now
}

// Run works until ctx ends.
func (w Worker) Run(ctx context.Context) error {
	private, err := outbound.ParseDestinations(w.FetchAllow)
	if err != nil {
		return fmt.Errorf("what may be fetched beside the internet: %w", err)
	}
	if err := directories(append([]string{w.PluginsDir}, w.SkillsDirs...)); err != nil {
		return err
	}
	places, err := w.places()
	if err != nil {
		return err
	}
	hooks := hook.New(hook.Config{Specs: w.Hooks, Definitions: w.DefinitionHooks, Environ: os.Environ()})
	defer hooks.Close()
	run, err := worker.New(worker.Config{
		ID: processName(), Pool: w.Pool, Slots: w.Slots,
		Client: pb.NewWorkerServiceClient(w.Orchestrator),
		Bus: func(installation string) (*dispatch.Bus, error) {
			bus, err := dispatch.New(dispatch.Config{Client: w.Redis, Installation: installation, Logger: w.Logger})
			if err == nil && w.Governor != nil {
				w.Governor.Share(w.Redis, bus.RateBucket)
			}
			return bus, err
		},
		Model: w.Model, Tools: append(append(tool.Builtin(), tool.NewWebFetch(private)), w.Tools...), Places: places, Hooks: hooks, Logger: w.Logger, Now: w.Now,
		SkillsDirs: w.SkillsDirs, PluginsDir: w.PluginsDir,
	})
	if err != nil {
		return err
	}
	return run.Run(ctx)
}

// places makes ready the directories that runs work in.
func (w Worker) places() (*workspace.Places, error) {
	box, err := sandbox.New(sandbox.Config{Environ: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		return nil, fmt.Errorf("a sandbox for git: %w", err)
	}
	return workspace.New(workspace.Config{Dir: w.Workspace, Root: w.Workspaces, Sandbox: box})
}
