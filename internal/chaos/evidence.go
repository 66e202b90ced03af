package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// Evidence is all that is known about one session: the state that the system reports, and the
// external records.
type Evidence struct {
	ID          string
	Session     *pb.Session // nil: the system does not know the session
	Tasks       []*pb.Task
	Events      []*pb.Event
	Transcripts map[string][]*pb.Message    // by task
	Inboxes     map[string][]*pb.InboxEntry // by task, of those in which something waits
	Diagnosed   []*pb.Violation
	Records     []Record

	// Quiet says that everything has ended, or should have.
	Quiet bool
	// Calm says that no fault was injected, so every answer was received.
	Calm bool
	// Limits are the caps of the session.
	Limits tree.Limits
	// Undisturbed is the trajectory of the same session without faults; nil: there is none to
	// compare with.
	Undisturbed *Trajectory
}

// Collector reads evidence over the API.
type Collector struct {
	Sessions pb.SessionServiceClient
	Tasks    pb.TaskServiceClient
	Admin    pb.AdminServiceClient
	Limits   tree.Limits
}

// NewCollector returns a collector that uses a connection.
func NewCollector(conn grpc.ClientConnInterface, limits tree.Limits) *Collector {
	return &Collector{
		Sessions: pb.NewSessionServiceClient(conn), Tasks: pb.NewTaskServiceClient(conn),
		Admin: pb.NewAdminServiceClient(conn), Limits: limits,
	}
}

// maxReads is how often a session is read until it does not change meanwhile.
const maxReads = 20

// Collect reads a consistent state of a session. It reads again if there was an event
// meanwhile.
func (c *Collector) Collect(ctx context.Context, id string) (*Evidence, error) {
	for range maxReads {
		before, err := c.Sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: id})
		if status.Code(err) == codes.NotFound {
			return &Evidence{ID: id, Limits: c.Limits}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading session %s: %w", id, err)
		}
		e := &Evidence{
			ID: id, Session: before.GetSession(), Limits: c.Limits, Transcripts: map[string][]*pb.Message{}, Inboxes: map[string][]*pb.InboxEntry{},
		}
		if err := c.read(ctx, e); err != nil {
			return nil, fmt.Errorf("reading session %s: %w", id, err)
		}
		after, err := c.Sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: id})
		if err != nil {
			return nil, fmt.Errorf("reading session %s: %w", id, err)
		}
		if after.GetSession().GetLastSeq() == e.Session.GetLastSeq() {
			return e, nil
		}
	}
	return nil, fmt.Errorf("session %s does not stand still", id)
}

func (c *Collector) read(ctx context.Context, e *Evidence) error {
	if err := c.events(ctx, e); err != nil {
		return err
	}
	if err := c.tasks(ctx, e); err != nil {
		return err
	}
	for _, t := range e.Tasks {
		messages, err := c.transcript(ctx, e.ID, t.GetId())
		if err != nil {
			return err
		}
		e.Transcripts[t.GetId()] = messages
		if t.GetInbox() == 0 {
			continue
		}
		inbox, err := c.Sessions.ListInbox(ctx, &pb.ListInboxRequest{SessionId: e.ID, TaskId: t.GetId()})
		if err != nil {
			return fmt.Errorf("reading an inbox: %w", err)
		}
		e.Inboxes[t.GetId()] = inbox.GetEntries()
	}
	found, err := c.Admin.Diagnose(ctx, &pb.DiagnoseRequest{SessionId: e.ID})
	if err != nil {
		return fmt.Errorf("diagnosing: %w", err)
	}
	e.Diagnosed = found.GetViolations()
	return nil
}

// events reads the log up to the last event. A watch of a busy session does not end on its own,
// so it is cancelled here.
func (c *Collector) events(ctx context.Context, e *Evidence) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Sessions.WatchSession(ctx, &pb.WatchSessionRequest{SessionId: e.ID})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	for last := int64(0); last < e.Session.GetLastSeq(); {
		resp, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		last = resp.GetEvent().GetSeq()
		e.Events = append(e.Events, resp.GetEvent())
	}
	return nil
}

// pageSize is how many tasks are listed at once.
const pageSize = 1000

func (c *Collector) tasks(ctx context.Context, e *Evidence) error {
	req := &pb.ListTasksRequest{SessionId: e.ID, PageSize: pageSize}
	for {
		resp, err := c.Tasks.ListTasks(ctx, req)
		if err != nil {
			return fmt.Errorf("listing tasks: %w", err)
		}
		e.Tasks = append(e.Tasks, resp.GetTasks()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

func (c *Collector) transcript(ctx context.Context, session, task string) ([]*pb.Message, error) {
	stream, err := c.Tasks.GetTranscript(ctx, &pb.GetTranscriptRequest{SessionId: session, TaskId: task})
	if err != nil {
		return nil, fmt.Errorf("reading a transcript: %w", err)
	}
	var all []*pb.Message
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a transcript: %w", err)
		}
		all = append(all, resp.GetMessages()...)
	}
}

// BySession groups records by session.
func BySession(records []Record) map[string][]Record {
	sorted := map[string][]Record{}
	for _, r := range records {
		sorted[r.Session] = append(sorted[r.Session], r)
	}
	return sorted
}
