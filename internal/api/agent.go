package api

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-run/coppice/internal/agentdef"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

var errNoName = tree.ErrBadInput.With("name is missing")

type agentServer struct {
	pb.UnimplementedAgentServiceServer
	svc *orchestrator.Service
}

func (s *agentServer) ListAgents(ctx context.Context, _ *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	all, problems, err := s.svc.ListAgents(ctx, tenant(ctx))
	if err != nil {
		return nil, err
	}
	resp := &pb.ListAgentsResponse{}
	for _, def := range all {
		resp.Agents = append(resp.Agents, agentProto(def))
	}
	for _, p := range problems {
		resp.Problems = append(resp.Problems, &pb.AgentProblem{Source: p.Source, Detail: p.Err.Error(), Kept: p.Kept})
	}
	return resp, nil
}

func (s *agentServer) GetAgent(ctx context.Context, req *pb.GetAgentRequest) (*pb.GetAgentResponse, error) {
	if req.GetName() == "" {
		return nil, errNoName
	}
	def, versions, err := s.svc.GetAgent(ctx, tenant(ctx), req.GetName(), req.GetVersion())
	if err != nil {
		return nil, err
	}
	resp := &pb.GetAgentResponse{Agent: agentProto(def)}
	resp.Agent.Prompt, resp.Agent.Reminder, resp.Agent.Definition = def.Prompt, def.Reminder, string(def.Marshal())
	for _, v := range versions {
		resp.Versions = append(resp.Versions, &pb.AgentVersion{Version: v.Version, PutTime: timestamppb.New(v.PutAt)})
	}
	return resp, nil
}

func (s *agentServer) PutAgent(ctx context.Context, req *pb.PutAgentRequest) (*pb.PutAgentResponse, error) {
	def, err := s.svc.PutAgent(ctx, tenant(ctx), req.GetDefinition())
	if err != nil {
		return nil, err
	}
	return &pb.PutAgentResponse{Agent: agentProto(def)}, nil
}

func (s *agentServer) DeleteAgent(ctx context.Context, req *pb.DeleteAgentRequest) (*pb.DeleteAgentResponse, error) {
	if req.GetName() == "" {
		return nil, errNoName
	}
	version, err := s.svc.DeleteAgent(ctx, tenant(ctx), req.GetName())
	if err != nil {
		return nil, err
	}
	return &pb.DeleteAgentResponse{Version: version}, nil
}

func agentProto(def *agentdef.Definition) *pb.Agent {
	out := &pb.Agent{
		Name: def.Name, Description: def.Description, Mode: pb.AgentMode(def.Mode), Tools: def.Tools,
		Model: def.Model, MaxIterations: int32(def.MaxIterations), Source: def.Source,
		Version: def.Version, Spawns: def.Spawns,
		DisallowedTools: def.DisallowedTools, DeferredTools: def.DeferredTools, Skills: def.Skills,
		Background: def.Background, FailOnInterrupt: def.FailOnInterrupt,
	}
	if def.Timeout > 0 {
		out.Timeout = durationpb.New(def.Timeout)
	}
	return out
}

type workerServer struct {
	pb.UnimplementedWorkerServiceServer
	svc   *orchestrator.Service
	local bool // its workers are in this process
}

func (s *workerServer) Work(stream pb.WorkerService_WorkServer) error {
	return s.svc.Work(stream, s.local)
}
