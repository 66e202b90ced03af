package api

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

func (s *taskServer) CreateBranch(ctx context.Context, req *pb.CreateBranchRequest) (*pb.CreateBranchResponse, error) {
	session, task, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	message, err := tree.ParseID[tree.Message](req.GetMessageId())
	if err != nil {
		return nil, tree.ErrBadInput.With("message_id: %v", err)
	}
	key, err := parseIdempotency(req.GetIdempotencyKey(), req)
	if err != nil {
		return nil, err
	}
	t, err := s.svc.CreateBranch(ctx, tenant(ctx), session, orchestrator.BranchSpec{
		Task: task, Message: message, WithoutContext: req.InheritContext != nil && !req.GetInheritContext(),
		Text: req.GetText(), Regenerate: req.GetRegenerate(), Description: req.GetDescription(), Select: req.GetSelect(),
	}, key)
	if err != nil {
		return nil, err
	}
	return &pb.CreateBranchResponse{Task: wire.Task(t)}, nil
}

func (s *taskServer) SelectBranch(ctx context.Context, req *pb.SelectBranchRequest) (*pb.SelectBranchResponse, error) {
	session, task, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	t, err := s.svc.SelectBranch(ctx, tenant(ctx), session, task)
	if err != nil {
		return nil, err
	}
	return &pb.SelectBranchResponse{Task: wire.Task(t)}, nil
}

// sendInherited sends the messages of other conversations that a task sees, if their ordinal is
// higher than after.
func (s *taskServer) sendInherited(t *tree.Task, after int, stream pb.TaskService_GetTranscriptServer) error {
	ctx := stream.Context()
	messages, err := s.svc.Inherited(ctx, tenant(ctx), t)
	if err != nil {
		return err
	}
	for len(messages) > 0 && messages[0].Ordinal <= after {
		messages = messages[1:]
	}
	for _, piece := range wire.Pieces(wire.Messages(messages)) {
		if err := stream.Send(&pb.GetTranscriptResponse{Messages: piece, Inherited: true}); err != nil {
			return err
		}
	}
	return nil
}
