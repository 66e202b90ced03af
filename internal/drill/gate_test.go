package drill

import (
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// granting is an orchestrator that refuses some claims before it grants one, and gives a run at
// each park.
type granting struct {
	pb.UnimplementedWorkerServiceServer
	refuses int
}

func (g *granting) Work(stream grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		resp := &pb.WorkResponse{Kind: &pb.WorkResponse_Assignment{Assignment: &pb.Assignment{Task: &pb.Task{Agent: req.GetClaim().GetTaskId()}}}}
		if req.GetClaim() != nil && g.refuses > 0 {
			g.refuses--
			resp.Kind = &pb.WorkResponse_Refused{Refused: &pb.Refused{Cause: pb.RefusedCause_REFUSED_CAUSE_STALE}}
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// served serves a WorkerService on a socket and returns a client of it.
func served(t *testing.T, s pb.WorkerServiceServer) pb.WorkerServiceClient {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterWorkerServiceServer(server, s)
	go server.Serve(listener) // until it is stopped
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewWorkerServiceClient(conn)
}

// TestRefusedClaims: a claim that is refused is no step, and neither is what a run is given without
// one, so a fault after a claim waits for one that is granted. A fault before a claim happens at the
// first that is asked for.
func TestRefusedClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after   bool
		refused int
		agent   string
	}{
		"after":  {true, 2, "third"},
		"before": {false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			injected := 0
			fault := &Fault{Victim: Link, Moment: Moment{Step: Claim, N: 1, After: c.after}}
			gate := newGate(served(t, &granting{refuses: 2}), fault, func(Victim) { injected++ })
			stream, err := served(t, gate).Work(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Park{Park: &pb.Park{}}}); err != nil {
				t.Fatal(err)
			}
			if given, err := stream.Recv(); given.GetAssignment() == nil {
				t.Fatalf("at a park came %v, %v", given, err)
			}
			refused := 0
			for _, task := range []string{"first", "second", "third"} {
				claim := &pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{TaskId: task}}}
				if err := stream.Send(claim); err != nil {
					break // cut
				}
				resp, err := stream.Recv()
				if err != nil {
					break // cut
				}
				if resp.GetRefused() != nil {
					refused++
				}
			}
			if got := gate.Injected(); refused != c.refused || got == nil || got.Agent != c.agent || injected != 1 {
				t.Errorf("after %d refused claims: %+v, %d times", refused, got, injected)
			}
			if n := gate.StepCounts()[Claim]; n != 1 {
				t.Errorf("%d claims are counted", n)
			}
		})
	}
}
