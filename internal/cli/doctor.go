package cli

import (
	"context"
	"fmt"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type doctorCommand struct {
	remote
	Session *string `arg:"" optional:"" help:"The session; default: all sessions of the tenant."`
}

// Run lists violations; it fails if there are any.
func (d *doctorCommand) Run(ctx context.Context, a *app) error {
	return d.with(func(c *client) error {
		req := &pb.DiagnoseRequest{}
		if d.Session != nil {
			var err error
			if req.SessionId, err = c.session(ctx, *d.Session); err != nil {
				return err
			}
		}
		sessions, tasks, broken := int32(0), int32(0), 0
		for {
			resp, err := c.admin.Diagnose(ctx, req)
			if err != nil {
				return during("looking at what is stored", err)
			}
			sessions, tasks, broken = sessions+resp.GetSessions(), tasks+resp.GetTasks(), broken+len(resp.GetViolations())
			if err := d.show(a, resp); err != nil {
				return err
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if !a.json {
			if err := a.print(fmt.Sprintf("%s, %s: %s",
				plural(int64(sessions), "session"), plural(int64(tasks), "task"), plural(int64(broken), "violation"))); err != nil {
				return err
			}
		}
		if broken > 0 {
			return exitCode(exitFailed)
		}
		return nil
	})
}

func (d *doctorCommand) show(a *app, resp *pb.DiagnoseResponse) error {
	if a.json {
		return a.printJSON(resp)
	}
	for _, v := range resp.GetViolations() {
		err := a.print(fmt.Sprintf("session %s task %s: %s: %s", v.GetSessionId(), v.GetTaskId(),
			safeLine(v.GetRule()), safeLine(v.GetDetail())))
		if err != nil {
			return err
		}
	}
	return nil
}
