package installation

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// The agents in the directory agents.
const (
	Parent = "parent" // spawns children
	Child  = "child"  // answers
	Asker  = "asker"  // asks for an approval
	Reader = "reader" // reads files of the workspace
)

// waitTimeout is the timeout of one wait call, which is then repeated.
const waitTimeout = time.Minute

// Open opens a session whose root does what the prompt says (see scenario.yaml).
func (i *Installation) Open(ctx context.Context, agent, prompt string) (*pb.Session, error) {
	opened, err := i.Sessions().CreateSession(ctx, &pb.CreateSessionRequest{
		Agent: agent, Message: &pb.UserMessage{Text: prompt},
	})
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	return opened.GetSession(), nil
}

// Wait waits for the end of the root's run, and fails unless it completed.
func (i *Installation) Wait(ctx context.Context, s *pb.Session) (*pb.Task, error) {
	for {
		waited, err := i.Tasks().WaitTask(ctx, &pb.WaitTaskRequest{
			SessionId: s.GetId(), TaskId: s.GetRootTaskId(), Timeout: durationpb.New(waitTimeout),
		})
		if err != nil {
			return nil, fmt.Errorf("waiting for the end: %w", err)
		}
		if waited.GetEnded() {
			return completed(waited.GetTask())
		}
	}
}

// Do opens a session and waits for the root's result.
func (i *Installation) Do(ctx context.Context, agent, prompt string) (*pb.Session, error) {
	opened, err := i.Sessions().CreateSession(ctx, &pb.CreateSessionRequest{
		Agent: agent, Message: &pb.UserMessage{Text: prompt}, Wait: durationpb.New(waitTimeout),
	})
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	if !opened.GetEnded() {
		_, err = i.Wait(ctx, opened.GetSession())
		return opened.GetSession(), err
	}
	_, err = completed(opened.GetRoot())
	return opened.GetSession(), err
}

// CheckCounts fails unless a session has this many tasks and model answers. A child has one
// answer, and a parent one more than it spawns times. This detects children that were refused
// or failed: to the parent's model that is an error which it ignores here. Builds that do not
// count answers are checked for tasks only.
func (i *Installation) CheckCounts(ctx context.Context, s *pb.Session, tasks, answers int) error {
	now, err := i.Sessions().GetSession(ctx, &pb.GetSessionRequest{SessionId: s.GetId()})
	if err != nil {
		return fmt.Errorf("counting tasks: %w", err)
	}
	total, calls := int(now.GetSession().GetTasks().GetTotal()), int(now.GetSession().GetModelCalls())
	if total != tasks || calls != answers && calls > 0 {
		return fmt.Errorf("the session has %d tasks with %d answers instead of %d with %d", total, calls, tasks, answers)
	}
	return nil
}

// DoMany opens n sessions over one stream and waits for the results of their roots. At most
// atOnce are open at the same time.
func (i *Installation) DoMany(ctx context.Context, agent, prompt string, n, atOnce int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // this ends the stream if DoMany returns early
	stream, err := i.Sessions().CreateSessions(ctx)
	if err != nil {
		return fmt.Errorf("opening sessions: %w", err)
	}
	open := make(chan struct{}, atOnce)
	sent := make(chan error, 1)
	go func() { sent <- sendMany(ctx, stream, agent, prompt, n, open) }()
	for range n {
		answer, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("waiting for an end: %w", err)
		}
		if refused := answer.GetRefused(); refused != nil {
			return fmt.Errorf("opening a session: %s", refused.GetMessage())
		}
		if !answer.GetOpened().GetEnded() {
			if _, err := i.Wait(ctx, answer.GetOpened().GetSession()); err != nil {
				return err
			}
		} else if _, err := completed(answer.GetOpened().GetRoot()); err != nil {
			return err
		}
		<-open
	}
	return <-sent
}

// sendMany requests n sessions, each when there is room among the open ones.
func sendMany(ctx context.Context, stream pb.SessionService_CreateSessionsClient, agent, prompt string, n int, open chan<- struct{}) error {
	for number := range n {
		select {
		case open <- struct{}{}:
		case <-ctx.Done():
			return nil // the receiver gets the error
		}
		if err := stream.Send(&pb.CreateSessionsRequest{Number: int64(number), Session: &pb.CreateSessionRequest{
			Agent: agent, Message: &pb.UserMessage{Text: prompt}, Wait: durationpb.New(waitTimeout),
		}}); err != nil {
			return fmt.Errorf("asking for a session: %w", err)
		}
	}
	return stream.CloseSend()
}

// completed returns a task that completed, and an error for any other.
func completed(t *pb.Task) (*pb.Task, error) {
	if t.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		return nil, fmt.Errorf("the root is %s, %s: %s", t.GetState(), t.GetReason(), t.GetDetail())
	}
	return t, nil
}
