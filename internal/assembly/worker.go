package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
)

// Worker is a worker process.
type Worker struct {
	Orchestrator grpc.ClientConnInterface
	Redis        redis.UniversalClient
	Pool         string
	Slots        int
	Workspace    string   // the directory of the file tools
	SkillsDirs   []string // directories of skills, beside those of the workspace
	PluginsDir   string   // directory of plugins, which may hold skills; empty: none
	Model        model.Model
	Governor     *governor.Governor // of the model; it learns from all workers of the installation; nil: none
	Tools        []tool.Tool        // beside those that are built in
	Hooks        []hook.Spec        // on the start and stop of sub-agents
	// DefinitionHooks lets the hooks run that come with agents' definitions.
	DefinitionHooks bool
	FetchAllow      []string // what web_fetch may reach beside the internet: globs of hosts, ranges of addresses
	Sandbox         sandbox.Options
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
	if _, err := w.confine(ctx); err != nil {
		return err
	}
	workspace, err := tool.OpenWorkspace(w.Workspace)
	if err != nil {
		return err
	}
	hooks, err := w.hooks()
	if err != nil {
		return errors.Join(err, workspace.Close())
	}
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
		Model: w.Model, Tools: append(append(tool.Builtin(), tool.NewWebFetch(private)), w.Tools...), Workspace: workspace, Hooks: hooks, Logger: w.Logger, Now: w.Now,
		SkillsDirs: w.SkillsDirs, PluginsDir: w.PluginsDir,
	})
	if err != nil {
		return errors.Join(err, workspace.Close())
	}
	return errors.Join(run.Run(ctx), workspace.Close())
}

// confine makes ready what commands run in, and says how far it goes.
func (w Worker) confine(ctx context.Context) (*sandbox.Sandbox, error) {
	config, err := w.Sandbox.Config(os.Environ(), w.Workspace)
	if err != nil {
		return nil, err
	}
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

// hooks makes ready the hooks, which run in the workspace.
func (w Worker) hooks() (*hook.Hooks, error) {
	dir, err := filepath.Abs(w.Workspace)
	if err != nil {
		return nil, fmt.Errorf("finding the workspace: %w", err)
	}
	return hook.New(hook.Config{
		Specs: w.Hooks, Definitions: w.DefinitionHooks, Dir: dir, Environ: os.Environ(),
	}), nil
}
