package api

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

func (s *sessionServer) ListInbox(ctx context.Context, req *pb.ListInboxRequest) (*pb.ListInboxResponse, error) {
	session, task, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	of, entries, err := s.svc.Inbox(ctx, tenant(ctx), session, task)
	if err != nil {
		return nil, err
	}
	resp := &pb.ListInboxResponse{TaskId: of.String()}
	for i := range entries {
		resp.Entries = append(resp.Entries, wire.InboxEntry(&entries[i]))
	}
	return resp, nil
}

func (s *sessionServer) ClearInbox(ctx context.Context, req *pb.ClearInboxRequest) (*pb.ClearInboxResponse, error) {
	session, task, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	cleared, err := s.svc.ClearInbox(ctx, tenant(ctx), session, task, req.GetIncludeNews())
	if err != nil {
		return nil, err
	}
	return &pb.ClearInboxResponse{
		Messages: int32(cleared.Messages), News: int32(len(cleared.News)), Left: int32(cleared.Left),
	}, nil
}
