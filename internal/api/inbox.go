package api

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// sessionChildren bounds the tasks other than the root that ListSessions returns of each session.
const sessionChildren = 100

// withChildren adds the tasks of a session other than its root, oldest first.
func (s *sessionServer) withChildren(ctx context.Context, session *tree.Session, shown *pb.Session) error {
	page, err := s.svc.Store.Tasks(ctx, session.ID, tree.TaskID{}, "", sessionChildren+1)
	if err != nil {
		return err
	}
	for i := range page.Rows {
		if t := &page.Rows[i]; t.ID != session.Root && len(shown.Children) < sessionChildren {
			shown.Children = append(shown.Children, wire.Task(t))
		}
	}
	return nil
}

// parseDelivery reports whether a message interrupts.
func parseDelivery(d pb.Delivery) (bool, error) {
	switch d {
	case pb.Delivery_DELIVERY_UNSPECIFIED, pb.Delivery_DELIVERY_NEXT_BOUNDARY:
		return false, nil
	case pb.Delivery_DELIVERY_INTERRUPT:
		return true, nil
	}
	return false, tree.ErrBadInput.With("delivery: %d is not a known value", d)
}

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
