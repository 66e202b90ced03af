package installation

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// The agents of furniture/agents.
const (
	Parent = "parent" // gives tasks to others
	Child  = "child"  // answers
	Asker  = "asker"  // needs somebody's approval
	Reader = "reader" // reads files of the workspace
)

// patience is how long a call waits for an end, which is then asked for again.
const patience = time.Minute

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

// Wait waits until the root's run has ended, and fails if it has not completed.
func (i *Installation) Wait(ctx context.Context, s *pb.Session) (*pb.Task, error) {
	for {
		waited, err := i.Tasks().WaitTask(ctx, &pb.WaitTaskRequest{
			SessionId: s.GetId(), TaskId: s.GetRootTaskId(), Timeout: durationpb.New(patience),
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
		Agent: agent, Message: &pb.UserMessage{Text: prompt}, Wait: durationpb.New(patience),
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

// completed gives a task whose run has ended, and fails if it has not completed.
func completed(t *pb.Task) (*pb.Task, error) {
	if t.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		return nil, fmt.Errorf("the root is %s, %s: %s", t.GetState(), t.GetReason(), t.GetDetail())
	}
	return t, nil
}
