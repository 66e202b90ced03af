package api

import (
	"context"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Page sizes of ListTasks and GetTranscript.
const (
	taskPage       = 100
	taskPageMax    = 1000
	transcriptPage = 50
)

type taskServer struct {
	pb.UnimplementedTaskServiceServer
	svc *orchestrator.Service
}

func (s *taskServer) SpawnTask(ctx context.Context, req *pb.SpawnTaskRequest) (*pb.SpawnTaskResponse, error) {
	session, err := parseSessionID(req.GetSessionId())
	if err != nil {
		return nil, err
	}
	parent, err := parseTaskID("parent_task_id", req.GetParentTaskId(), true)
	if err != nil {
		return nil, err
	}
	if req.GetAgent() == "" {
		return nil, tree.ErrBadInput.With("agent is missing")
	}
	key, err := parseIdempotency(req.GetIdempotencyKey(), req)
	if err != nil {
		return nil, err
	}
	timeout, deadline, err := parseTimeBounds(req)
	if err != nil {
		return nil, err
	}
	wait, err := parseWait("wait", req.GetWait())
	if err != nil {
		return nil, err
	}
	if err := checkCallback("on_complete", req.GetOnComplete()); err != nil {
		return nil, err
	}
	t, err := s.svc.SpawnTask(ctx, tenant(ctx), session, tree.SpawnTask{
		Parent: parent, Notify: req.GetNotifyParent(), Source: req.GetSource(),
		Child: tree.Child{
			AgentName: req.GetAgent(), Description: req.GetDescription(), Prompt: req.GetPrompt(), Context: req.GetContext(),
			Model: req.GetModel(), Fork: req.GetForkContext(), MaxIterations: int(req.GetMaxIterations()), Timeout: timeout, Deadline: deadline,
			OnComplete: req.GetOnComplete(),
		},
	}, key)
	if err != nil {
		return nil, err
	}
	now, ended, err := awaitStarted(ctx, s.svc, t, firstRun(t.ID), wait)
	if err != nil {
		return nil, err
	}
	return &pb.SpawnTaskResponse{Task: taskWithOutput(now), Ended: ended}, nil
}

// parseTimeBounds reads how long a task may take. Zero values mean no bound.
func parseTimeBounds(req *pb.SpawnTaskRequest) (timeout time.Duration, deadline time.Time, err error) {
	if timeout, err = parseDuration("timeout", req.GetTimeout()); err != nil {
		return 0, deadline, err
	}
	if req.GetTimeout() != nil && timeout < time.Millisecond {
		return 0, deadline, tree.ErrBadInput.With("timeout must be at least a millisecond")
	}
	if req.GetDeadline() != nil {
		if err := req.GetDeadline().CheckValid(); err != nil {
			return 0, deadline, tree.ErrBadInput.With("deadline: %v", err)
		}
		deadline = req.GetDeadline().AsTime().Truncate(time.Microsecond)
		if deadline.Unix() <= 0 {
			return 0, deadline, tree.ErrBadInput.With("deadline must be later than 1970-01-01T00:00:00Z")
		}
	}
	return timeout.Truncate(time.Microsecond), deadline, nil
}

func (s *taskServer) GetTask(ctx context.Context, req *pb.GetTaskRequest) (*pb.GetTaskResponse, error) {
	session, id, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), false)
	if err != nil {
		return nil, err
	}
	t, err := s.svc.Task(ctx, tenant(ctx), session, id)
	if err != nil {
		return nil, err
	}
	shown, err := s.withResult(ctx, t)
	if err != nil {
		return nil, err
	}
	return &pb.GetTaskResponse{Task: shown}, nil
}

func (s *taskServer) withResult(ctx context.Context, t *tree.Task) (*pb.Task, error) {
	shown := wire.Task(t)
	var err error
	shown.Result, shown.Unfinished, err = s.svc.Result(ctx, t)
	return shown, err
}

func (s *taskServer) ListTasks(ctx context.Context, req *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
	session, err := parseSessionID(req.GetSessionId())
	if err != nil {
		return nil, err
	}
	parent, err := parseTaskID("parent_task_id", req.GetParentTaskId(), true)
	if err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize(), taskPage, taskPageMax)
	if err != nil {
		return nil, err
	}
	_, page, err := s.svc.Tasks(ctx, tenant(ctx), session, parent, req.GetPageToken(), size)
	if err != nil {
		return nil, err
	}
	resp := &pb.ListTasksResponse{}
	resp.Tasks, resp.NextPageToken, err = pageRows(page, func(t *tree.Task) (*pb.Task, error) { return wire.Task(t), nil })
	return resp, err
}

func (s *taskServer) CancelTask(ctx context.Context, req *pb.CancelTaskRequest) (*pb.CancelTaskResponse, error) {
	session, id, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	t, runs, err := s.svc.CancelTask(ctx, tenant(ctx), session, tree.Cancel{Task: id, Run: int(req.GetRun()), Detail: req.GetReason()})
	if err != nil {
		return nil, err
	}
	return &pb.CancelTaskResponse{Task: wire.Task(t), CancelledRuns: int32(runs)}, nil
}

func (s *taskServer) BackgroundTask(ctx context.Context, req *pb.BackgroundTaskRequest) (*pb.BackgroundTaskResponse, error) {
	session, id, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), req.GetCommands())
	if err != nil {
		return nil, err
	}
	background := s.svc.BackgroundTask
	if req.GetCommands() {
		background = s.svc.BackgroundCommands
	}
	t, err := background(ctx, tenant(ctx), session, id)
	if err != nil {
		return nil, err
	}
	return &pb.BackgroundTaskResponse{Task: wire.Task(t)}, nil
}

func (s *taskServer) GetTranscript(req *pb.GetTranscriptRequest, stream pb.TaskService_GetTranscriptServer) error {
	ctx := stream.Context()
	session, id, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return err
	}
	t, err := s.svc.Task(ctx, tenant(ctx), session, id)
	if err != nil {
		return err
	}
	if req.GetIncludeInherited() {
		if err := s.sendInherited(t, int(req.GetAfterOrdinal()), stream); err != nil {
			return err
		}
	}
	for after := int(req.GetAfterOrdinal()); ; {
		messages, err := s.svc.Transcript(ctx, tenant(ctx), t, after, transcriptPage)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, piece := range wire.Pieces(wire.Messages(messages)) {
			if err := stream.Send(&pb.GetTranscriptResponse{Messages: piece}); err != nil {
				return err
			}
		}
		after = messages[len(messages)-1].Ordinal
	}
}
