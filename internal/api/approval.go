package api

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Sizes of the pages of ListApprovals.
const (
	approvalPage    = 100
	approvalPageMax = 500
)

type approvalServer struct {
	pb.UnimplementedApprovalServiceServer
	svc *orchestrator.Service
}

func (s *approvalServer) ListApprovals(ctx context.Context, req *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	var session tree.SessionID
	if req.GetSessionId() != "" {
		var err error
		if session, err = parseSessionID(req.GetSessionId()); err != nil {
			return nil, err
		}
	} else if req.GetIncludeDecided() {
		return nil, tree.ErrBadInput.With("include_decided requires session_id")
	}
	size, err := pageSize(req.GetPageSize(), approvalPage, approvalPageMax)
	if err != nil {
		return nil, err
	}
	page, err := s.svc.Approvals(ctx, tenant(ctx), session, req.GetIncludeDecided(), req.GetPageToken(), size)
	if err != nil {
		return nil, err
	}
	resp := &pb.ListApprovalsResponse{}
	resp.Approvals, resp.NextPageToken, err = pageRows(page, func(a *orchestrator.Approval) (*pb.Approval, error) {
		return wire.Approval(a.Session, &a.Approval), nil
	})
	return resp, err
}

func (s *approvalServer) DecideApproval(ctx context.Context, req *pb.DecideApprovalRequest) (*pb.DecideApprovalResponse, error) {
	session, cmd, err := wire.DecisionFrom(req)
	if err != nil {
		return nil, err
	}
	a, err := s.svc.DecideApproval(ctx, tenant(ctx), session, cmd)
	if err != nil {
		return nil, err
	}
	return &pb.DecideApprovalResponse{Approval: wire.Approval(a.Session, &a.Approval)}, nil
}
