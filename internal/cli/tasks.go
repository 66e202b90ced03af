package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type spawnCommand struct {
	remote
	Session     string        `arg:"" help:"The session."`
	Agent       string        `env:"" required:"" placeholder:"NAME" help:"Agent to start."`
	Parent      *string       `env:"" placeholder:"ID" help:"Parent of the new task; default: the root."`
	Description string        `env:"" help:"Short description of the task."`
	Notify      bool          `env:"" help:"Report the end of the task to the parent's conversation."`
	Timeout     time.Duration `env:"" placeholder:"DURATION" help:"How long its run may be with workers in total, for example 90s; default: the limit of its agent."`
	Deadline    time.Duration `env:"" placeholder:"DURATION" help:"Time from now after which the task fails if it has not ended."`
	OnComplete  string        `env:"" placeholder:"URL" help:"URL to call when a run of the task has ended; default: that of its agent."`
	Prompt      []string      `arg:"" help:"The prompt; - reads it from standard input."`

	MaxIterations int32    `env:"" placeholder:"N" help:"Maximum number of its model calls; default: that of its agent."`
	Context       []string `env:"" placeholder:"TEXT" sep:"none" help:"Text to give the agent in addition to the prompt. Can be repeated."`
	ContextFile   []string `env:"" placeholder:"FILE" sep:"none" help:"Local file to give the agent in addition to the prompt. Can be repeated."`
}

// contextTexts returns the context of the sub-agent.
func (s *spawnCommand) contextTexts(ctx context.Context, a *app) ([]string, error) {
	told := s.Context
	for _, name := range s.ContextFile {
		if name == "-" {
			return nil, usagef("--context-file: standard input is for the prompt; name a file")
		}
		content, err := a.file(ctx, name, "--context-file "+name, maxText)
		if err != nil {
			return nil, err
		}
		told = append(told, "File "+name+":\n"+strings.ToValidUTF8(string(content), "\uFFFD"))
	}
	return told, nil
}

// checkBounds refuses bounds that allow nothing. The orchestrator takes 0 for no bound.
func (s *spawnCommand) checkBounds(a *app) error {
	for _, bound := range []struct {
		flag    string
		value   any
		allowed bool
	}{
		{"timeout", s.Timeout, s.Timeout > 0},
		{"deadline", s.Deadline, s.Deadline > 0},
		{"max-iterations", s.MaxIterations, s.MaxIterations > 0},
	} {
		if a.hasFlag(bound.flag) && !bound.allowed {
			return usagef("--%s is %v; it must be more than 0", bound.flag, bound.value)
		}
	}
	return nil
}

// Run starts a sub-agent.
func (s *spawnCommand) Run(ctx context.Context, a *app) error {
	if err := s.checkBounds(a); err != nil {
		return err
	}
	prompt, err := a.text(ctx, s.Prompt)
	if err != nil {
		return err
	}
	told, err := s.contextTexts(ctx, a)
	if err != nil {
		return err
	}
	return s.with(func(c *client) error {
		session, parent, err := c.sessionAndTask(ctx, s.Session, s.Parent)
		if err != nil {
			return err
		}
		req := &pb.SpawnTaskRequest{
			SessionId: session, ParentTaskId: parent, Agent: s.Agent, Prompt: prompt,
			Description: s.Description, NotifyParent: s.Notify,
			MaxIterations: s.MaxIterations, Context: told, OnComplete: s.OnComplete,
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
	Session   string   `arg:"" help:"The session."`
	Task      *string  `env:"" placeholder:"ID" help:"The task; default: the current branch."`
	Steer     bool     `env:"" help:"Allow sending to a sub-agent, which otherwise gets messages only from its parent."`
	Interrupt bool     `env:"" help:"Deliver it at the next step: children that the task waits for, and its commands, move to the background."`
	Text      []string `arg:"" help:"The message; - reads it from standard input."`
}

// Run sends a message.
func (s *sendCommand) Run(ctx context.Context, a *app) error {
	text, err := a.text(ctx, s.Text)
	if err != nil {
		return err
	}
	return s.with(func(c *client) error {
		session, task, err := c.sessionAndTask(ctx, s.Session, s.Task)
		if err != nil {
			return err
		}
		if err := s.mayReach(ctx, c, session, task); err != nil {
			return err
		}
		req := &pb.SendMessageRequest{SessionId: session, TaskId: task, Message: &pb.UserMessage{Text: text}}
		if s.Interrupt {
			req.Delivery = pb.Delivery_DELIVERY_INTERRUPT
		}
		resp, err := c.sessions.SendMessage(ctx, req)
		if err != nil {
			return during("sending the message", err)
		}
		switch {
		case a.json:
			return a.printJSON(resp)
		case resp.GetBackgrounded() > 0:
			goes := "children continue"
			if resp.GetBackgrounded() == 1 {
				goes = "child continues"
			}
			return a.print(fmt.Sprintf("so that the message can be read, %d %s in the background", resp.GetBackgrounded(), goes))
		case resp.GetQueued() && s.Interrupt:
			return a.print("the message is read at the task's next step, before its next model call; calls that cannot continue in the background end first")
		case resp.GetQueued():
			return a.print("the message waits until the task's current tool calls are done")
		}
		return a.print(fmt.Sprintf("the message started run %d of task %s", resp.GetTask().GetRun(), safeLine(resp.GetTask().GetId())))
	})
}

// mayReach keeps a person from writing to a sub-agent by mistake.
func (s *sendCommand) mayReach(ctx context.Context, c *client, session, task string) error {
	if task == "" || s.Steer {
		return nil
	}
	resp, err := c.tasks.GetTask(ctx, &pb.GetTaskRequest{SessionId: session, TaskId: task})
	if err != nil {
		return during("reading the task", err)
	}
	if resp.GetTask().GetDepth() > 0 {
		return usagef("task %s is a sub-agent, which gets its messages from its parent; send it a message with --steer, or continue from one of its messages with coppice branch", task)
	}
	return nil
}

type cancelCommand struct {
	remote
	taskFlag
	Session string  `arg:"" help:"The session."`
	Task    *string `arg:"" optional:"" help:"The task; default: the root."`
	Reason  string  `env:"" placeholder:"TEXT" help:"Reason; shown with the result."`
}

// Run cancels a task and everything below it.
func (c *cancelCommand) Run(ctx context.Context, a *app) error {
	return c.with(func(to *client) error {
		session, task, err := c.sessionAndTask(ctx, to, c.Session, c.Task)
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
		return a.print("cancelled " + plural(int64(resp.GetCancelledRuns()), "run"))
	})
}

type backgroundCommand struct {
	remote
	taskFlag
	Session  string  `arg:"" help:"The session."`
	Task     *string `arg:"" optional:"" help:"The task; default with --commands: the root."`
	Commands bool    `env:"" help:"Move the commands that the task runs to the background, so that it continues."`
}

// Run moves a task to the background so that its parent continues, or the commands of a task so
// that the task continues.
func (b *backgroundCommand) Run(ctx context.Context, a *app) error {
	if b.Task == nil && b.TaskFlag == nil && !b.Commands {
		return usagef("give the id of a task, or --commands")
	}
	return b.with(func(c *client) error {
		session, task, err := b.sessionAndTask(ctx, c, b.Session, b.Task)
		if err != nil {
			return err
		}
		resp, err := c.tasks.BackgroundTask(ctx, &pb.BackgroundTaskRequest{SessionId: session, TaskId: task, Commands: b.Commands})
		if err != nil {
			return during("putting the task into the background", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		if b.Commands {
			return a.print("its commands continue in the background")
		}
		return a.print("its parent does not wait for task " + safeLine(resp.GetTask().GetId()) + " any more")
	})
}
