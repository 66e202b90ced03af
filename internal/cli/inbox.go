package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type inboxCommand struct {
	remote
	Session string  `arg:"" help:"The session."`
	Task    *string `env:"" placeholder:"ID" help:"The task; default: the current branch."`
	Clear   bool    `env:"" help:"Remove the messages."`
	News    bool    `env:"" help:"With --clear: also remove news of background children that ended; the task is never told of them."`
}

// Run lists or clears the inbox of a task.
func (i *inboxCommand) Run(ctx context.Context, a *app) error {
	if i.News && !i.Clear {
		return usagef("--news requires --clear")
	}
	return i.with(func(c *client) error {
		session, task, err := c.sessionAndTask(ctx, i.Session, i.Task)
		if err != nil {
			return err
		}
		if i.Clear {
			resp, err := c.sessions.ClearInbox(ctx, &pb.ClearInboxRequest{SessionId: session, TaskId: task, IncludeNews: i.News})
			if err != nil {
				return during("clearing the inbox", err)
			}
			if a.json {
				return a.printJSON(resp)
			}
			return a.print(fmt.Sprintf("removed %s and %s; %d still waiting",
				plural(int64(resp.GetMessages()), "message"), endsText(resp.GetNews()), resp.GetLeft()))
		}
		resp, err := c.sessions.ListInbox(ctx, &pb.ListInboxRequest{SessionId: session, TaskId: task})
		if err != nil {
			return during("reading the inbox", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		if len(resp.GetEntries()) == 0 {
			a.printNone("messages wait")
		}
		for _, e := range resp.GetEntries() {
			if err := a.printWaiting(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// endsText counts ends of children.
func endsText(n int32) string {
	if n == 1 {
		return "1 notice that a child ended"
	}
	return fmt.Sprintf("%d notices that children ended", n)
}

// printWaiting prints an inbox entry on one line: age, and content.
func (a *app) printWaiting(e *pb.InboxEntry) error {
	what := "message: " + safeLine(strings.Join(strings.Fields(e.GetText()), " "))
	if news := e.GetNews(); news != nil {
		what = fmt.Sprintf("run %d of task %s has ended", news.GetRun(), safeLine(news.GetTaskId()))
	}
	age := durationText(a.now().Sub(e.GetQueueTime().AsTime()).Truncate(time.Second))
	return a.print(fmt.Sprintf("%7s ago  %s", age, what))
}

type renameCommand struct {
	remote
	Session string   `arg:"" help:"The session."`
	Title   []string `arg:"" help:"New title of the session."`
}

// Run gives a session another title.
func (r *renameCommand) Run(ctx context.Context, a *app) error {
	title := strings.TrimSpace(strings.Join(r.Title, " "))
	if title == "" {
		return usagef("the title is empty")
	}
	return r.with(func(c *client) error {
		session, err := c.session(ctx, r.Session)
		if err != nil {
			return err
		}
		resp, err := c.sessions.UpdateSession(ctx, &pb.UpdateSessionRequest{SessionId: session, Title: title})
		if err != nil {
			return during("renaming the session", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print("renamed to " + safeLine(resp.GetSession().GetTitle()))
	})
}

type closeCommand struct {
	remote
	Session string `arg:"" help:"The session."`
	Reason  string `env:"" placeholder:"TEXT" help:"Reason; shown with the results of the cancelled runs."`
}

// Run closes a session.
func (cl *closeCommand) Run(ctx context.Context, a *app) error {
	return cl.with(func(c *client) error {
		session, err := c.session(ctx, cl.Session)
		if err != nil {
			return err
		}
		resp, err := c.sessions.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: session, Reason: cl.Reason})
		if err != nil {
			return during("closing the session", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print(fmt.Sprintf("closed; %s abandoned", plural(int64(resp.GetAbandonedRuns()), "run")))
	})
}

type deleteCommand struct {
	remote
	Session string `arg:"" help:"The session."`
}

// Run deletes a session.
func (d *deleteCommand) Run(ctx context.Context, a *app) error {
	return d.with(func(c *client) error {
		session, err := c.session(ctx, d.Session)
		if err != nil {
			return err
		}
		resp, err := c.sessions.DeleteSession(ctx, &pb.DeleteSessionRequest{SessionId: session})
		if err != nil {
			return during("deleting the session", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print(fmt.Sprintf("deleted %s; %s abandoned", safeLine(session), plural(int64(resp.GetAbandonedRuns()), "run")))
	})
}
