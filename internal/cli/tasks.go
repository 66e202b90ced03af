package cli

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type spawnCommand struct {
	remote
	Session     string        `arg:"" help:"The session."`
	Agent       string        `required:"" placeholder:"NAME" help:"Agent to start."`
	Parent      string        `placeholder:"ID" help:"Task to start it below; by default the root."`
	Description string        `help:"A few words on what it is for."`
	Notify      bool          `help:"Tell the parent's conversation of the end."`
	Timeout     time.Duration `placeholder:"DURATION" help:"How long it may be at work in all, like 90s; by default what its agent says."`
	Deadline    time.Duration `placeholder:"DURATION" help:"When it fails if it has not ended, counted from now."`
	Prompt      []string      `arg:"" help:"What it has to do; - reads it from standard input."`
}

// Run starts a sub-agent.
func (s *spawnCommand) Run(ctx context.Context, a *app) error {
	prompt, err := a.text(s.Prompt)
	if err != nil {
		return err
	}
	return s.with(func(c *client) error {
		session, parent, err := c.both(ctx, s.Session, s.Parent)
		if err != nil {
			return err
		}
		req := &pb.SpawnTaskRequest{
			SessionId: session, ParentTaskId: parent, Agent: s.Agent, Prompt: prompt,
			Description: s.Description, NotifyParent: s.Notify,
		}
		if s.Timeout != 0 {
			req.Timeout = durationpb.New(s.Timeout)
		}
		if s.Deadline != 0 {
			req.Deadline = timestamppb.New(time.Now().Add(s.Deadline))
		}
		resp, err := c.tasks.SpawnTask(ctx, req)
		if err != nil {
			return during("starting the sub-agent", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print("started " + safeLine(resp.GetTask().GetAgent()) + " as task " + safeLine(resp.GetTask().GetId()))
	})
}

type sendCommand struct {
	remote
	Session string   `arg:"" help:"The session."`
	Task    string   `placeholder:"ID" help:"The task; by default the root."`
	Text    []string `arg:"" help:"What to say; - reads it from standard input."`
}

// Run sends a message.
func (s *sendCommand) Run(ctx context.Context, a *app) error {
	text, err := a.text(s.Text)
	if err != nil {
		return err
	}
	return s.with(func(c *client) error {
		session, task, err := c.both(ctx, s.Session, s.Task)
		if err != nil {
			return err
		}
		resp, err := c.sessions.SendMessage(ctx, &pb.SendMessageRequest{
			SessionId: session, TaskId: task, Message: &pb.UserMessage{Text: text},
		})
		if err != nil {
			return during("sending the message", err)
		}
		switch {
		case a.json:
			return a.printJSON(resp)
		case resp.GetQueued():
			return a.print("the message waits until the task's current tool calls are done")
		}
		return a.print(fmt.Sprintf("the message started run %d of task %s", resp.GetTask().GetRun(), safeLine(resp.GetTask().GetId())))
	})
}

type cancelCommand struct {
	remote
	Session string `arg:"" help:"The session."`
	Task    string `arg:"" optional:"" help:"The task; by default the root."`
	Reason  string `placeholder:"TEXT" help:"Why; it stands beside the result."`
}

// Run cancels a task with all that is below it.
func (c *cancelCommand) Run(ctx context.Context, a *app) error {
	return c.with(func(to *client) error {
		session, task, err := to.both(ctx, c.Session, c.Task)
		if err != nil {
			return err
		}
		resp, err := to.tasks.CancelTask(ctx, &pb.CancelTaskRequest{SessionId: session, TaskId: task, Reason: c.Reason})
		if err != nil {
			return during("cancelling the task", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print(fmt.Sprintf("cancelled %d runs", resp.GetCancelledRuns()))
	})
}

type backgroundCommand struct {
	remote
	Session string `arg:"" help:"The session."`
	Task    string `arg:"" help:"The task."`
}

// Run lets the parent go on that waits for a task.
func (b *backgroundCommand) Run(ctx context.Context, a *app) error {
	return b.with(func(c *client) error {
		session, task, err := c.both(ctx, b.Session, b.Task)
		if err != nil {
			return err
		}
		resp, err := c.tasks.BackgroundTask(ctx, &pb.BackgroundTaskRequest{SessionId: session, TaskId: task})
		if err != nil {
			return during("putting the task into the background", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print("nobody waits for task " + safeLine(resp.GetTask().GetId()) + " any more")
	})
}

type waitCommand struct {
	remote
	Session string         `arg:"" help:"The session."`
	Task    string         `arg:"" optional:"" help:"The task; by default the root."`
	Timeout *time.Duration `placeholder:"DURATION" help:"How long to wait, like 90s; by default until it has ended."`
}

// waitMost is how long one call waits; a longer wait is several.
const waitMost = time.Minute

// Run waits for a task, and shows its answer.
func (w *waitCommand) Run(ctx context.Context, a *app) error {
	return w.with(func(c *client) error {
		session, task, err := c.both(ctx, w.Session, w.Task)
		if err != nil {
			return err
		}
		resp, err := w.wait(ctx, c, session, task)
		if err != nil {
			return during("waiting for the task", err)
		}
		switch {
		case a.json:
			err = a.printJSON(resp)
		case resp.GetEnded():
			err = a.printAnswer(resp.GetTask(), false)
		default:
			err = a.print("the task has not ended: " + stateText(resp.GetTask().GetState()))
		}
		switch {
		case err != nil:
			return err
		case !resp.GetEnded():
			return exitCode(exitUnfinished)
		}
		return outcome(resp.GetTask())
	})
}

// wait waits in pieces until the task has ended, or the time is up.
func (w *waitCommand) wait(ctx context.Context, c *client, session, task string) (*pb.WaitTaskResponse, error) {
	begun := time.Now()
	for {
		piece, final := waitMost, false
		if w.Timeout != nil {
			left := max(0, *w.Timeout-time.Since(begun))
			piece, final = min(piece, left), left <= piece
		}
		resp, err := c.tasks.WaitTask(ctx, &pb.WaitTaskRequest{
			SessionId: session, TaskId: task, Timeout: durationpb.New(piece),
		})
		if err != nil || resp.GetEnded() || final {
			return resp, err
		}
	}
}
