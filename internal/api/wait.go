package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// How long a call waits for the end of a run.
const (
	defaultWait = 30 * time.Second // of WaitTask
	maxWait     = 10 * time.Minute
	noWait      = time.Duration(-1) // the client has not asked for a wait; 0: it wants to look once
)

// parseWait reads how long a client wants to wait.
func parseWait(field string, asked *durationpb.Duration) (time.Duration, error) {
	if asked == nil {
		return noWait, nil
	}
	wait, err := parseDuration(field, asked)
	if err != nil {
		return 0, err
	}
	if wait < 0 || wait > maxWait {
		return 0, tree.ErrBadInput.With("%s is %s, must be from 0 to %s", field, wait, maxWait)
	}
	return wait, nil
}

func (s *taskServer) WaitTask(ctx context.Context, req *pb.WaitTaskRequest) (*pb.WaitTaskResponse, error) {
	session, id, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	timeout, err := parseWait("timeout", req.GetTimeout())
	if err != nil {
		return nil, err
	}
	if timeout == noWait {
		timeout = defaultWait
	}
	return waitTask(ctx, s.svc, session, tree.ChildRun{Task: id}, timeout)
}

// waitTask waits for a run, or for the current run of the task if none is named.
func waitTask(
	ctx context.Context, svc *orchestrator.Service, session tree.SessionID, of tree.ChildRun, timeout time.Duration,
) (*pb.WaitTaskResponse, error) {
	now, err := svc.WaitTask(ctx, tenant(ctx), session, of, timeout)
	if err != nil {
		return nil, err
	}
	t, out := now.Task, now.Output
	return &pb.WaitTaskResponse{Task: taskWithOutput(now), Ended: t.State.Terminal(), Output: wire.Output(t, out.Output, out.Cut)}, nil
}

// taskWithOutput converts a task, with its result if it has one.
func taskWithOutput(now orchestrator.WaitResult) *pb.Task {
	shown := wire.Task(now.Task)
	if orchestrator.HasResult(now.Task) {
		shown.Result = now.Output.Answer
	}
	shown.Unfinished = now.Output.Words
	return shown
}

// awaitStarted waits for the run that a call has started or sent a message to. It returns the task,
// and whether that run has ended. A repeat of the call waits for the same run, whatever runs
// followed it. If it can't wait until the end, because the replica stops or the database is
// unavailable, it returns the task as it is: what was started continues, and the client has to know
// of it. If the client has not asked for a wait, it returns the task as it is, too.
func awaitStarted(ctx context.Context, svc *orchestrator.Service, t *tree.Task, of tree.Sent, wait time.Duration) (now orchestrator.WaitResult, ended bool, err error) {
	if wait == noWait {
		return orchestrator.WaitResult{Task: t}, false, nil
	}
	now, took, err := svc.WaitMessage(ctx, tenant(ctx), t.Session, of, wait)
	switch {
	case errors.Is(err, tree.ErrStopping) || errors.Is(err, tree.ErrUnavailable):
		return orchestrator.WaitResult{Task: t}, false, nil
	case err != nil:
		return now, false, err
	}
	return now, took && now.Task.State.Terminal(), nil
}

// firstRun returns the first run of a new task.
func firstRun(task tree.TaskID) tree.Sent { return tree.Sent{Task: task, Run: 1} }
