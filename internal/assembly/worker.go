package assembly

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/worker"
)

// Worker is a worker process.
type Worker struct {
	Orchestrator grpc.ClientConnInterface
	Redis        redis.UniversalClient
	Pool         string
	Slots        int
	Workspace    string // the directory of the file tools
	Model        model.Model
	Tools        []tool.Tool // beside those that are built in
	Logger       *slog.Logger
}

// Run works until ctx ends.
func (w Worker) Run(ctx context.Context) error {
	workspace, err := tool.OpenWorkspace(w.Workspace)
	if err != nil {
		return err
	}
	run, err := worker.New(worker.Config{
		ID: processName(), Pool: w.Pool, Slots: w.Slots,
		Client: pb.NewWorkerServiceClient(w.Orchestrator),
		Bus: func(installation string) (*dispatch.Bus, error) {
			return dispatch.New(dispatch.Config{Client: w.Redis, Installation: installation, Logger: w.Logger})
		},
		Model: w.Model, Tools: append(tool.Builtin(), w.Tools...), Workspace: workspace, Logger: w.Logger,
	})
	if err != nil {
		return errors.Join(err, workspace.Close())
	}
	return errors.Join(run.Run(ctx), workspace.Close())
}
