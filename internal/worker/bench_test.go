package worker

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
	"github.com/coppice-run/coppice/internal/workspace"
)

// BenchmarkAttempt carries a sub-agent's run from its hint to its end, over a stream
// without a network: what a task costs a worker whose model takes no time.
func BenchmarkAttempt(b *testing.B) {
	w, hint := idleWorker(b)
	l := w.newConn()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go l.stayConnected(ctx)
	l.waitConnected(ctx)
	b.ReportAllocs()
	for b.Loop() {
		w.claimHint(ctx, l, hint, "1-1")
		if len(w.acks.takeAll()) != 1 {
			b.Fatal("the attempt was not claimed")
		}
	}
}

// idleWorker is a worker as a process has it, whose orchestrator gives the same run for
// each claim.
func idleWorker(b *testing.B) (*Worker, dispatch.Hint) {
	b.Helper()
	played, err := scripted.Parse("ok.yaml", []byte("about: a leaf\nsteps:\n  - {text: ok}\n"))
	if err != nil {
		b.Fatal(err)
	}
	secrets, _ := redact.New()
	measured, err := telemetry.Open(b.Context(), telemetry.Config{Service: "worker", Getenv: func(string) string { return "" }})
	if err != nil {
		b.Fatal(err)
	}
	observed, err := measured.TraceModel(scripted.New(played))
	if err != nil {
		b.Fatal(err)
	}
	places, err := workspace.New(workspace.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	// Other runs work in the same directory meanwhile.
	place, err := places.Enter(b.Context(), workspace.Run{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := place.Leave(); err != nil {
			b.Error(err)
		}
	})
	hint := dispatch.Hint{Session: tree.SessionID{15: 1}, Task: tree.TaskID{15: 2}, Epoch: 1}
	w, err := New(Config{
		ID: "w", Pool: "default", Slots: 1, Client: leaf(hint), Places: places,
		Bus:   func(string) (*dispatch.Bus, error) { return nil, nil },
		Model: observed, Observe: measured, Secrets: secrets, Tools: append(tool.Builtin(), tool.NewWebFetch(outbound.Destinations{})),
		Logger: slog.New(secrets.Handler(measured.LogHandler(slog.NewJSONHandler(&strings.Builder{}, nil)))),
	})
	if err != nil {
		b.Fatal(err)
	}
	return w, hint
}

// leaf gives the first run of a sub-agent for each claim.
func leaf(hint dispatch.Hint) replica {
	r := agentdef.Builtin()
	explore, _ := r.Get("explore")
	a := &pb.Assignment{
		Task: &pb.Task{
			SessionId: hint.Session.String(), Id: hint.Task.String(), Epoch: hint.Epoch, Run: 1, Depth: 1,
			Agent: explore.Name, ModelProvider: "scripted", ModelName: "scripted",
		},
		AgentDefinition: explore.Marshal(), MaxIterations: 50, MaxPartBytes: 1 << 20, TakesCompact: true, TakesCommands: true,
	}
	for _, may := range r.Spawnable(explore) {
		a.Spawnable = append(a.Spawnable, &pb.SpawnableAgent{Name: may.Name, Description: may.Description})
	}
	asked := tree.Message{ID: tree.MessageID{15: 3}, Ordinal: 1, Run: 1, Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "leaf"}}}
	return replica{a, []*pb.Message{wire.Message(&asked)}}
}

// replica is an orchestrator that answers each claim with the same run, and takes
// whatever comes of it.
type replica struct {
	assignment *pb.Assignment
	transcript []*pb.Message
}

// Work opens a stream.
func (r replica) Work(ctx context.Context, _ ...grpc.CallOption) (pb.WorkerService_WorkClient, error) {
	s := &streamed{replica: r, ctx: ctx, answers: make(chan *pb.WorkResponse, window)}
	s.answers <- &pb.WorkResponse{Kind: &pb.WorkResponse_Welcome{Welcome: &pb.Welcome{
		InstallationId: "i", ReplicaId: "r", Window: window, Protocol: wire.Protocol, OldestProtocol: wire.OldestProtocol,
	}}}
	return s, nil
}

type streamed struct {
	grpc.ClientStream
	replica
	ctx     context.Context // that it was opened with
	answers chan *pb.WorkResponse
}

func (s *streamed) Send(req *pb.WorkRequest) error {
	switch req.GetKind().(type) {
	case *pb.WorkRequest_Claim:
		s.answers <- &pb.WorkResponse{Kind: &pb.WorkResponse_Assignment{Assignment: s.assignment}}
		s.answers <- &pb.WorkResponse{Kind: &pb.WorkResponse_Transcript{Transcript: &pb.TranscriptChunk{Messages: s.transcript, Last: true}}}
	case *pb.WorkRequest_End:
		s.answers <- &pb.WorkResponse{Kind: &pb.WorkResponse_Ended{Ended: &pb.Ended{}}}
	}
	return nil
}

func (s *streamed) Recv() (*pb.WorkResponse, error) {
	select {
	case r := <-s.answers:
		return r, nil
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}

func (s *streamed) CloseSend() error { return nil }
