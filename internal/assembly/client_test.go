package assembly_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model/scripted"
)

// patience is how long a test waits for what has to happen; it only guards
// against hanging.
const patience = 3 * time.Minute

// client is what a test speaks to a running Coppice with.
type client struct {
	t *testing.T
	pb.SessionServiceClient
	pb.TaskServiceClient
	pb.AgentServiceClient
	pb.AdminServiceClient
	pb.ApprovalServiceClient
	work    pb.WorkerServiceClient
	running *assembly.Running
	server  atomic.Value // the address that a watch got its last event from, a string
}

// patientConn is a connection for a busy machine, which may take long to connect and may lose what
// is connected: calls wait until it is up, and those that only read are made again if it breaks.
type patientConn struct{ grpc.ClientConnInterface }

var reads = regexp.MustCompile(`/(Get|List|Wait|Diagnose)[A-Za-z]*$`)

func (c patientConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	for {
		err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(opts, grpc.WaitForReady(true))...)
		said := status.Convert(err)
		broke := said.Code() == codes.Unavailable && len(said.Details()) == 0 // what the server refuses has details
		if !broke || !reads.MatchString(method) {
			return err
		}
	}
}

func (c patientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(ctx, desc, method, append(opts, grpc.WaitForReady(true))...)
}

func newClient(t *testing.T, conn grpc.ClientConnInterface) *client {
	conn = patientConn{conn}
	return &client{
		t:                    t,
		SessionServiceClient: pb.NewSessionServiceClient(conn),
		TaskServiceClient:    pb.NewTaskServiceClient(conn),
		AgentServiceClient:   pb.NewAgentServiceClient(conn),
		AdminServiceClient:   pb.NewAdminServiceClient(conn),

		ApprovalServiceClient: pb.NewApprovalServiceClient(conn),
		work:                  pb.NewWorkerServiceClient(conn),
	}
}

// setup starts everything in one process, with a scenario as the model.
func setup(t *testing.T, scenario string, change func(*assembly.Dev)) *client {
	t.Helper()
	played, err := scripted.Parse("scenario.yaml", []byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	dev := assembly.Dev{
		DataDir: t.TempDir(), Workspace: t.TempDir(), Model: scripted.New(played),
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if change != nil {
		change(&dev)
	}
	running, err := assembly.StartDev(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	c := newClient(t, running.Conn())
	c.running = running
	return c
}

func (c *client) ctx() context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	c.t.Cleanup(cancel)
	return ctx
}

func (c *client) create(text string) *pb.Session {
	c.t.Helper()
	req := &pb.CreateSessionRequest{}
	if text != "" {
		req.Message = &pb.UserMessage{Text: text}
	}
	resp, err := c.CreateSession(c.ctx(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetSession()
}

// idle watches a session from the start until it is idle.
func (c *client) idle(session string) ([]*pb.Event, *pb.Idle) {
	c.t.Helper()
	stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, UntilIdle: true})
	if err != nil {
		c.t.Fatal(err)
	}
	var events []*pb.Event
	for {
		resp, err := stream.Recv()
		if err != nil {
			c.t.Fatalf("after %d events: %v", len(events), err)
		}
		if idle := resp.GetIdle(); idle != nil {
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				c.t.Fatalf("the stream goes on after idle: %v", err)
			}
			return events, idle
		}
		if e := resp.GetEvent(); e != nil {
			if e.GetSeq() != int64(len(events)+1) {
				c.t.Fatalf("event %d came as number %d", e.GetSeq(), len(events)+1)
			}
			events = append(events, e)
		}
	}
}

// sound holds all that is stored against the rules.
func (c *client) sound() {
	c.t.Helper()
	resp, err := c.Diagnose(c.ctx(), &pb.DiagnoseRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.GetSessions() == 0 || resp.GetTasks() == 0 {
		c.t.Errorf("nothing was looked at: %v", resp)
	}
	for _, v := range resp.GetViolations() {
		c.t.Errorf("task %s: %s: %s", v.GetTaskId(), v.GetRule(), v.GetDetail())
	}
}

func (c *client) wait(session, task string) *pb.Task {
	c.t.Helper()
	resp, err := c.WaitTask(c.ctx(), &pb.WaitTaskRequest{
		SessionId: session, TaskId: task, Timeout: durationpb.New(patience),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if !resp.GetEnded() {
		c.t.Fatalf("task %s is still %s after %s", task, resp.GetTask().GetState(), patience)
	}
	return resp.GetTask()
}

func (c *client) tasks(session string) []*pb.Task {
	c.t.Helper()
	var all []*pb.Task
	req := &pb.ListTasksRequest{SessionId: session, PageSize: 1000}
	for {
		resp, err := c.ListTasks(c.ctx(), req)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, resp.GetTasks()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// root gives the session's root task.
func (c *client) root(session string) string {
	c.t.Helper()
	resp, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: session})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetSession().GetRootTaskId()
}

func (c *client) transcript(session, task string) []*pb.Message {
	c.t.Helper()
	stream, err := c.GetTranscript(c.ctx(), &pb.GetTranscriptRequest{SessionId: session, TaskId: task})
	if err != nil {
		c.t.Fatal(err)
	}
	var all []*pb.Message
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, resp.GetMessages()...)
	}
}
