package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// mirror answers each claim of a task with a run of that task, until it is told to end.
type mirror struct {
	pb.UnimplementedWorkerServiceServer
	end chan struct{}
}

func (m *mirror) Work(stream pb.WorkerService_WorkServer) error {
	failed := make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err == nil {
				task := req.GetClaim().GetTaskId()
				err = stream.Send(&pb.WorkResponse{Kind: &pb.WorkResponse_Assignment{Assignment: &pb.Assignment{Task: &pb.Task{Id: task}}}})
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	select {
	case err := <-failed:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-m.end:
		return status.Error(codes.Aborted, "ended")
	}
}

func claimOf(task string) *pb.WorkRequest {
	return &pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{TaskId: task}}}
}

// connected returns a client of a mirror, and the connection.
func connected(m *mirror, interceptors ...grpc.StreamServerInterceptor) (pb.WorkerServiceClient, *InProcess) {
	p := NewInProcess()
	p.serve(m, append(interceptors, streamStatus(slog.New(slog.DiscardHandler), nil)))
	return pb.NewWorkerServiceClient(p), p
}

// workInBubble begins a stream that is held until the test's context is done. One that is collected
// before cancels its own context, and what collects it runs outside of the test's bubble.
func workInBubble(t *testing.T, client pb.WorkerServiceClient) (pb.WorkerService_WorkClient, error) {
	stream, err := client.Work(t.Context())
	t.Cleanup(func() { runtime.KeepAlive(stream) })
	return stream, err
}

func TestInProcessMessages(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string) grpc.StreamServerInterceptor {
		return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			order = append(order, name)
			return handler(srv, stream)
		}
	}
	client, _ := connected(&mirror{}, note("outer"), note("inner"))
	for name, c := range map[string]struct {
		task string
		code codes.Code
	}{
		"answered":  {"a", codes.OK},
		"as large":  {strings.Repeat("x", maxRequestBytes-100), codes.OK},
		"too large": {strings.Repeat("x", maxRequestBytes), codes.ResourceExhausted},
		"no UTF-8":  {"\xff", codes.InvalidArgument},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := client.Work(ctx)
		if err != nil {
			t.Fatal(err)
		}
		req := claimOf(c.task)
		if err := stream.Send(req); err != nil {
			t.Errorf("%s: sending: %v", name, err)
		}
		req.GetClaim().TaskId = "changed since"
		resp, err := stream.Recv()
		if status.Code(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && resp.GetAssignment().GetTask().GetId() != c.task {
			t.Errorf("%s: another answer came", name)
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
		if _, err := stream.Recv(); c.code == codes.OK && !errors.Is(err, io.EOF) {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
	if got := strings.Join(order[:2], " "); got != "outer inner" {
		t.Errorf("the interceptors ran in the order %s", got)
	}
}

func TestInProcessStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &mirror{end: make(chan struct{})}
		client, p := connected(m)
		stream, err := workInBubble(t, client)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(claimOf("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			p.stop()
		}()
		synctest.Wait()
		late, err := workInBubble(t, client)
		if err == nil {
			_, err = late.Recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("a stream after the stop: %v", err)
		}
		select {
		case <-stopped:
			t.Error("it did not wait for the stream")
		default:
		}
		close(m.end)
		<-stopped
		if _, err := stream.Recv(); status.Code(err) != codes.Aborted {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// TestInProcessIsNotServed: a stream waits as long as its context.
func TestInProcessIsNotServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewInProcess()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := pb.NewWorkerServiceClient(p).Work(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it was not served: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			p.serve(&mirror{}, nil)
		}()
		stream, err := workInBubble(t, pb.NewWorkerServiceClient(p))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("served later: %v", err)
		}
	})
}

// speaker sends to each stream once its client is gone.
type speaker struct {
	pb.UnimplementedWorkerServiceServer
}

func (speaker) Work(stream pb.WorkerService_WorkServer) error {
	<-stream.Context().Done()
	return stream.Send(&pb.WorkResponse{})
}

// TestInProcessAClientThatIsGone is no failure of the call. The connection has stopped once all is
// logged.
func TestInProcessAClientThatIsGone(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	p := NewInProcess()
	slow := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		err := handler(srv, stream)
		time.Sleep(time.Minute)
		logged.WriteString("over")
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		p.serve(speaker{}, []grpc.StreamServerInterceptor{slow, streamStatus(slog.New(slog.NewTextHandler(&logged, nil)), nil)})
		ctx, leave := context.WithCancel(t.Context())
		stream, err := pb.NewWorkerServiceClient(p).Work(ctx)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		leave()
		p.stop()
		if got := logged.String(); got != "over" {
			t.Errorf("when the connection has stopped, %q is logged", got)
		}
		runtime.KeepAlive(stream)
	})
}
