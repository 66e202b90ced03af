package api

import (
	"context"

	"github.com/coppice-run/coppice/internal/agentdef"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

type agentServer struct {
	pb.UnimplementedAgentServiceServer
	svc *orchestrator.Service
}

func (s *agentServer) ListAgents(context.Context, *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	resp := &pb.ListAgentsResponse{}
	for _, def := range s.svc.Agents.List() {
		resp.Agents = append(resp.Agents, agent(def))
	}
	return resp, nil
}

func (s *agentServer) GetAgent(_ context.Context, req *pb.GetAgentRequest) (*pb.GetAgentResponse, error) {
	def, ok := s.svc.Agents.Get(req.GetName())
	if !ok {
		return nil, tree.ErrNoAgent.With("%s", req.GetName())
	}
	shown := agent(def)
	shown.Prompt = def.Prompt
	return &pb.GetAgentResponse{Agent: shown}, nil
}

func agent(def *agentdef.Definition) *pb.Agent {
	return &pb.Agent{
		Name: def.Name, Description: def.Description, Mode: pb.AgentMode(def.Mode), Tools: def.Tools,
		Model: def.Model, MaxIterations: int32(def.MaxIterations), Source: def.Source,
		Version: def.Version, Spawns: def.Spawns,
	}
}

type workerServer struct {
	pb.UnimplementedWorkerServiceServer
	svc *orchestrator.Service
}

func (s *workerServer) Work(stream pb.WorkerService_WorkServer) error {
	return s.svc.Work(stream)
}
