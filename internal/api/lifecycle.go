package api

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

func (s *sessionServer) UpdateSession(ctx context.Context, req *pb.UpdateSessionRequest) (*pb.UpdateSessionResponse, error) {
	id, err := parseSessionID(req.GetSessionId())
	if err != nil {
		return nil, err
	}
	if req.GetTitle() == "" && req.GetBudget() == nil {
		return nil, tree.ErrBadInput.With("title and budget are both missing; set at least one of them")
	}
	change := tree.ChangeSession{Title: req.GetTitle()}
	if req.GetBudget() != nil {
		change.Budget = new(wire.BudgetFrom(req.GetBudget()))
	}
	if err := s.svc.ChangeSession(ctx, tenant(ctx), id, change); err != nil {
		return nil, err
	}
	session, err := s.readSession(ctx, id)
	if err != nil {
		return nil, err
	}
	return &pb.UpdateSessionResponse{Session: session}, nil
}

func (s *sessionServer) CloseSession(ctx context.Context, req *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	id, err := parseSessionID(req.GetSessionId())
	if err != nil {
		return nil, err
	}
	runs, err := s.svc.CloseSession(ctx, tenant(ctx), id, req.GetReason())
	if err != nil {
		return nil, err
	}
	session, err := s.readSession(ctx, id)
	if err != nil {
		return nil, err
	}
	return &pb.CloseSessionResponse{Session: session, AbandonedRuns: int32(runs)}, nil
}

func (s *sessionServer) DeleteSession(ctx context.Context, req *pb.DeleteSessionRequest) (*pb.DeleteSessionResponse, error) {
	id, err := parseSessionID(req.GetSessionId())
	if err != nil {
		return nil, err
	}
	runs, err := s.svc.DeleteSession(ctx, tenant(ctx), id)
	if err != nil {
		return nil, err
	}
	return &pb.DeleteSessionResponse{AbandonedRuns: int32(runs)}, nil
}
