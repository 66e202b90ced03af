package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/workspace"
)

// cleanupTimeout bounds the cleanup after a run.
const cleanupTimeout = 30 * time.Second

// enterWorkspace returns the place in which a run works.
func (w *Worker) enterWorkspace(ctx context.Context, a *assignment) (*workspace.Place, error) {
	task := a.GetTask()
	session, err := tree.ParseID[tree.Session](task.GetSessionId())
	if err != nil {
		return nil, fmt.Errorf("the session: %w", err)
	}
	id, err := tree.ParseID[tree.Task](task.GetId())
	if err != nil {
		return nil, fmt.Errorf("the task: %w", err)
	}
	run := workspace.Run{
		Session: session, Name: a.GetWorkspace(), Task: id, Attempt: strconv.FormatInt(task.GetEpoch(), 10),
	}
	for _, text := range a.GetWorktreeTaskIds() {
		of, err := tree.ParseID[tree.Task](text)
		if err != nil {
			return nil, fmt.Errorf("the task of a worktree: %w", err)
		}
		run.Worktrees = append(run.Worktrees, of)
	}
	return w.Places.Enter(ctx, run)
}

// removeUnchangedWorktree removes the worktree of a run that has ended, if nothing was changed in
// it. It does so even while the worker stops.
func removeUnchangedWorktree(ctx context.Context, log *slog.Logger, place *workspace.Place) {
	if !place.OwnsWorktree() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := place.RemoveIfUnchanged(ctx); err != nil {
		log.WarnContext(ctx, "removing the worktree of a run that has ended failed", "error", err)
	}
}
