package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type sessionsCommand struct {
	remote
	Limit  int               `env:"" default:"20" help:"Maximum number to list; 0 means all."`
	All    bool              `env:"" help:"Also show the other tasks of each session: sub-agents, commands and branches."`
	Filter map[string]string `env:"" placeholder:"KEY=VALUE" help:"List only sessions with this metadata pair. Can be repeated."`
}

// Run lists sessions, newest first.
func (s *sessionsCommand) Run(ctx context.Context, a *app) error {
	if s.Limit < 0 {
		return usagef("--limit is negative")
	}
	return s.with(func(c *client) error {
		shown := 0
		req := &pb.ListSessionsRequest{Filter: s.Filter, IncludeChildren: s.All}
		for {
			if s.Limit > 0 {
				req.PageSize = int32(min(s.Limit-shown, 999) + 1) // one more, to know whether there are more
			}
			page, err := c.sessions.ListSessions(ctx, req)
			if err != nil {
				return during("listing the sessions", err)
			}
			for _, session := range page.GetSessions() {
				if s.Limit > 0 && shown == s.Limit {
					a.warn("there are more sessions: --limit 0 shows all")
					return nil
				}
				if err := a.printSession(session); err != nil {
					return err
				}
				shown++
			}
			req.PageToken = page.GetNextPageToken()
			switch {
			case req.PageToken == "" && shown == 0:
				a.printNone("sessions")
				return nil
			case req.PageToken == "":
				return nil
			case s.Limit > 0 && shown == s.Limit: // with a filter, further pages may be empty
				a.warn("there may be more sessions: --limit 0 shows all")
				return nil
			}
		}
	})
}

// printSession prints one line: id, state, age, size and title.
func (a *app) printSession(s *pb.Session) error {
	if a.json {
		return a.printJSON(s)
	}
	l := a.theme()
	line := fmt.Sprintf("%s  %s %-9s  %7s ago  %9s  %9s  %s",
		safeLine(s.GetId()), l.mark(s.GetState(), -1), stateText(s.GetState()),
		durationText(a.now().Sub(s.GetCreateTime().AsTime()).Truncate(time.Second)),
		plural(int64(s.GetTasks().GetTotal()), "task"), tokenUsage{}.addUsage(s.GetUsage()).text("tok"),
		safeLine(s.GetTitle()))
	if s.GetCloseTime() != nil {
		line += "  (closed)"
	}
	lines := []string{line}
	for _, t := range s.GetChildren() {
		name := safeLine(t.GetAgent()) + " "
		if t.GetKind() == pb.TaskKind_TASK_KIND_SHELL {
			name = shellName
		}
		lines = append(lines, fmt.Sprintf("  %s  %s %-9s  %s%s %s", safeLine(t.GetId()), l.mark(t.GetState(), -1), stateText(t.GetState()),
			strings.Repeat("  ", int(max(0, t.GetDepth()-1))), name, safeLine(t.GetDescription())))
	}
	if missing := int(s.GetTasks().GetTotal()) - 1 - len(s.GetChildren()); missing > 0 && len(s.GetChildren()) > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", missing))
	}
	if width, terminal := a.terminal(a.Stdout); terminal {
		for i := range lines {
			lines[i] = ansi.Truncate(lines[i], width, l.ellipsis)
		}
	}
	return a.print(lines...)
}

type treeCommand struct {
	remote
	Session string  `arg:"" help:"The session."`
	Task    *string `env:"" placeholder:"ID" help:"Show only this task and what is below it."`
	Depth   int32   `env:"" help:"Number of levels to show below the top; 0 means all."`
}

// Run draws the current tree.
func (t *treeCommand) Run(ctx context.Context, a *app) error {
	return t.with(func(c *client) error {
		session, task, err := c.sessionAndTask(ctx, t.Session, t.Task)
		if err != nil {
			return err
		}
		resp, err := c.sessions.GetTree(ctx, &pb.GetTreeRequest{SessionId: session, TaskId: task, MaxDepth: t.Depth})
		if err != nil {
			return during("reading the tree", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		f, l := forestOf(resp), a.theme()
		if t.Task == nil {
			f.denied = int64(resp.GetSession().GetDeniedCalls())
		}
		width, _ := a.terminal(a.Stdout)
		lines := f.draw(canvas{theme: l, width: width, now: a.now(), frame: -1, ids: true, decisionHelp: t.decisionHelp(a).forSession(session)})
		foot := f.summary(a.now(), l.separator)
		if all := resp.GetSession(); t.Task == nil && t.Depth > 0 && len(f.order) < int(all.GetTasks().GetTotal()) {
			foot = f.partialSummary(all, a.now(), l.separator)
		}
		return a.print(append(lines, l.dim.Render(foot))...)
	})
}

type watchCommand struct {
	remote
	Session   string `arg:"" help:"The session."`
	After     int64  `env:"" help:"Print, as lines, only what happened after the event with this number; also at a terminal, which otherwise shows the tree."`
	UntilIdle bool   `env:"" help:"Exit when nothing is left to do, and print the root's answer."`
	Deltas    bool   `help:"With --json: also print pieces of answers while they are generated."`
}

// Run shows the session while it continues.
func (w *watchCommand) Run(ctx context.Context, a *app) error {
	return w.with(func(c *client) error {
		session, err := c.session(ctx, w.Session)
		if err != nil {
			return err
		}
		resp, err := c.sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: session})
		if err != nil {
			return during("reading the session", err)
		}
		if end := resp.GetSession().GetLastSeq(); w.After < 0 || w.After > end {
			return usagef("--after is %d; the last event is %d", w.After, end)
		}
		return a.show(ctx, showOptions{
			client: c, session: session, after: w.After, untilIdle: w.UntilIdle, deltas: w.Deltas, decisionHelp: w.decisionHelp(a),
		})
	})
}
