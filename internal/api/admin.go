package api

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// maxFindSessions bounds the sessions that one FindSessions may name.
const maxFindSessions = 1000

type adminServer struct {
	pb.UnimplementedAdminServiceServer
	svc *orchestrator.Service
}

func (s *adminServer) Diagnose(ctx context.Context, req *pb.DiagnoseRequest) (*pb.DiagnoseResponse, error) {
	resp := &pb.DiagnoseResponse{}
	if req.GetSessionId() != "" {
		id, err := parseSessionID(req.GetSessionId())
		if err != nil {
			return nil, err
		}
		return resp, s.examine(ctx, id, resp)
	}
	size, err := pageSize(req.GetPageSize(), sessionPage, sessionPageMax)
	if err != nil {
		return nil, err
	}
	page, err := s.svc.Sessions(ctx, tenant(ctx), req.GetPageToken(), size, nil)
	if err != nil {
		return nil, err
	}
	resp.NextPageToken = page.Next
	for i := range page.Rows {
		err := s.examine(ctx, page.Rows[i].ID, resp)
		if errors.Is(err, tree.ErrNoSession) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
	}
	return resp, nil
}

func (s *adminServer) ListWorkers(ctx context.Context, _ *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	workers, err := s.svc.Workers(ctx)
	if err != nil {
		return nil, err
	}
	resp := &pb.ListWorkersResponse{}
	for i := range workers {
		w := &workers[i]
		resp.Workers = append(resp.Workers, &pb.Worker{
			Id: w.ID, Pool: w.Pool, Slots: int32(w.Slots), Running: int32(w.Running), Version: w.Version,
			StartTime: timestamppb.New(w.Started), ReplicaIds: w.Replicas, Draining: w.Draining,
		})
	}
	return resp, nil
}

func (s *adminServer) DrainWorker(ctx context.Context, req *pb.DrainWorkerRequest) (*pb.DrainWorkerResponse, error) {
	return &pb.DrainWorkerResponse{}, s.svc.Drain(ctx, req.GetWorkerId())
}

func (s *adminServer) GetStats(ctx context.Context, _ *pb.GetStatsRequest) (*pb.GetStatsResponse, error) {
	stats, err := s.svc.Stats(ctx)
	if err != nil {
		return nil, err
	}
	resp := &pb.GetStatsResponse{
		Replicas: int32(stats.Replicas), Workers: int32(stats.Workers), Slots: int32(stats.Slots),
		Running: int32(stats.Running), Queued: int32(stats.Ready + stats.Held), Held: int32(stats.Held),
		Pool: stats.Pool,
	}
	if !stats.Oldest.IsZero() {
		resp.OldestQueuedTime = timestamppb.New(stats.Oldest)
	}
	return resp, nil
}

func (s *adminServer) FindSessions(ctx context.Context, req *pb.FindSessionsRequest) (*pb.FindSessionsResponse, error) {
	named := req.GetSessionIds()
	if len(named) > maxFindSessions {
		return nil, tree.ErrBadInput.With("session_ids has %d entries, the limit is %d", len(named), maxFindSessions)
	}
	ids := make([]tree.SessionID, len(named))
	for i, name := range named {
		var err error
		if ids[i], err = tree.ParseID[tree.Session](name); err != nil {
			return nil, tree.ErrBadInput.With("session_ids: %v", err)
		}
	}
	found, err := s.svc.ExistingSessions(ctx, ids)
	if err != nil {
		return nil, err
	}
	resp := &pb.FindSessionsResponse{}
	for _, id := range found {
		resp.SessionIds = append(resp.SessionIds, id.String())
	}
	return resp, nil
}

// examine adds the violations found in one session to the response.
func (s *adminServer) examine(ctx context.Context, id tree.SessionID, resp *pb.DiagnoseResponse) error {
	rows, err := s.svc.SessionRows(ctx, tenant(ctx), id)
	if err != nil {
		return err
	}
	resp.Sessions++
	resp.Tasks += int32(len(rows.Tasks))
	for _, v := range tree.Diagnose(rows) {
		shown := &pb.Violation{SessionId: id.String(), Rule: v.Rule, Detail: v.Detail}
		if !v.Task.IsZero() {
			shown.TaskId = v.Task.String()
		}
		resp.Violations = append(resp.Violations, shown)
	}
	return nil
}
