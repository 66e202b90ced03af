package cli

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type waitCommand struct {
	remote
	taskFlag
	Session string         `arg:"" help:"The session."`
	Task    *string        `arg:"" optional:"" help:"The task; default: the root."`
	Timeout *time.Duration `env:"" placeholder:"DURATION" help:"How long to wait, for example 90s; default: until the task has ended."`
}

// A wait consists of several calls, each twice as long as the previous one, up to maxWait. Between
// calls the approvals of the session are checked.
const (
	minWait = 2 * time.Second
	maxWait = time.Minute
)

// nextWait returns the duration of the call after one of duration was.
func nextWait(was time.Duration) time.Duration { return max(minWait, min(2*was, maxWait)) }

// Run waits for a task, and prints its answer.
func (w *waitCommand) Run(ctx context.Context, a *app) error {
	if w.Timeout != nil && *w.Timeout < 0 {
		return usagef("--timeout %s is negative", *w.Timeout)
	}
	return w.with(func(c *client) error {
		session, task, err := w.sessionAndTask(ctx, c, w.Session, w.Task)
		if err != nil {
			return err
		}
		resp, err := w.wait(ctx, c, session, task, a.waitReporter(a.approvalReporter(ctx, c, session, w.decisionHelp(a))))
		if err != nil {
			return during("waiting for the task", err)
		}
		switch {
		case a.json:
			err = a.printJSON(resp)
		case resp.GetEnded():
			err = a.printAnswer(resp.GetTask(), false)
		default:
			err = a.printUnfinished(resp)
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

// printUnfinished prints the progress and the output of a task that has not ended.
func (a *app) printUnfinished(resp *pb.WaitTaskResponse) error {
	lines := []string{"the task has not ended: " + stateText(resp.GetTask().GetState())}
	if progress := resp.GetOutput().GetAgent().GetProgress(); progress != "" {
		lines = append(lines, safeLine(progress))
	}
	for _, line := range strings.Split(resp.GetOutput().GetOutput(), "\n") {
		if line != "" {
			lines = append(lines, safeLine(line))
		}
	}
	return a.print(lines...)
}

// wait waits until the task has ended, or the time is up. The first call must succeed; later ones
// are retried over new connections. onUnfinished is called with the answer of each call if the task
// has not ended.
func (w *waitCommand) wait(ctx context.Context, c *client, session, task string, onUnfinished func(*pb.WaitTaskResponse)) (*pb.WaitTaskResponse, error) {
	begun, gone := time.Now(), newOutage()
	var last *pb.WaitTaskResponse // the last known state of the task
	next := time.Duration(0)
	for first := true; ; first, next = false, nextWait(next) {
		piece, final := next, false
		if w.Timeout != nil {
			left := max(0, *w.Timeout-time.Since(begun))
			piece, final = min(piece, left), left <= piece
		}
		tried := time.Now()
		resp, err := c.tasks.WaitTask(ctx, &pb.WaitTaskRequest{
			SessionId: session, TaskId: task, Timeout: durationpb.New(piece),
		})
		if err == nil && !resp.GetEnded() {
			onUnfinished(resp)
		}
		switch {
		case err == nil && (resp.GetEnded() || final):
			return resp, nil
		case err == nil:
			last = resp
			gone.clear()
			continue
		case wasServed(tried):
			gone.clear()
		}
		rest := retryTimeout
		if w.Timeout != nil {
			rest = max(0, *w.Timeout-time.Since(begun))
		}
		switch {
		case first || !isTemporary(err) || gone.isTooLong():
			return nil, err
		case rest == 0:
			return last, nil
		}
		select {
		case <-time.After(min(gone.pause.NextBackOff(), rest)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// waitReporter returns a function that says what an unfinished task waits for: once, that it has no
// message yet; else its approvals.
func (a *app) waitReporter(approvals func()) func(*pb.WaitTaskResponse) {
	told := false
	return func(resp *pb.WaitTaskResponse) {
		if resp.GetTask().GetState() != pb.TaskState_TASK_STATE_NEW {
			approvals()
			return
		}
		if !told {
			told = true
			a.warn("waiting: the task has had no message yet; coppice send gives it one")
		}
	}
}

// approvalReporter returns a function that prints each open approval of a session once. If they
// cannot be listed, it prints that once, unless the wait itself will fail for the same reason.
func (a *app) approvalReporter(ctx context.Context, c *client, session string, by decisionHelp) func() {
	told, refused := map[string]bool{}, false
	return func() {
		err := c.eachApproval(ctx, session, false, func(p *pb.Approval) error {
			if !told[p.GetId()] {
				told[p.GetId()] = true
				a.warn("waiting: " + askText(p, p.GetTaskId(), p.GetId(), by.forSession(session)))
			}
			return nil
		})
		if err != nil && !refused && ctx.Err() == nil && !isTemporary(err) {
			refused = true
			a.complain("reading the approvals of the session failed: " + err.Error())
		}
	}
}
