package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// agreer accepts every decision.
type agreer struct {
	pb.UnimplementedApprovalServiceServer
}

func (agreer) DecideApproval(_ context.Context, req *pb.DecideApprovalRequest) (*pb.DecideApprovalResponse, error) {
	return &pb.DecideApprovalResponse{Approval: &pb.Approval{Id: req.GetApprovalId(), State: pb.ApprovalState_APPROVAL_STATE_DENIED}}, nil
}

// printer is a standard output that interrupts the command once it has printed something.
type printer struct {
	printed   []byte
	after     string
	interrupt func()
}

func (p *printer) Write(text []byte) (int, error) {
	if p.printed = append(p.printed, text...); bytes.Contains(p.printed, []byte(p.after)) {
		p.interrupt()
	}
	return len(text), nil
}

// TestDecisionsAreInterrupted: who interrupts a command before it has decided everything learns
// that it has not.
func TestDecisionsAreInterrupted(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, served := grpc.NewServer(), make(chan error, 1)
	pb.RegisterApprovalServiceServer(server, agreer{})
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	const first, second = "00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002"
	for after, want := range map[string]struct {
		code       int
		complaints string
	}{first: {exitInterrupted, "coppice: interrupted\n"}, second: {exitOK, ""}} {
		ctx, interrupt := context.WithCancel(t.Context())
		out, complaints := printer{after: after, interrupt: interrupt}, strings.Builder{}
		code := Main(ctx, Process{
			Args:   []string{"deny", "--orchestrator", listener.Addr().String(), first, second},
			Stdout: &out, Stderr: &complaints, Getenv: func(string) string { return "" },
		})
		interrupt()
		if code != want.code || complaints.String() != want.complaints || bytes.Contains(out.printed, []byte(second)) != (after == second) {
			t.Errorf("interrupted after %s: exit code %d, %s%s", after, code, out.printed, &complaints)
		}
	}
}
