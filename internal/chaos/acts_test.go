package chaos_test

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// act is something that a client does once it has seen so many events.
type act struct {
	at int64
	do func(*tree, context.Context) error
}

// byChance chooses what a client will do to a tree, and when.
func byChance(t *tree) []act {
	var plan []act
	for _, m := range []struct {
		odds float64
		do   func(*tree, context.Context) error
	}{
		{0.08, (*tree).cancelRoot}, {0.10, (*tree).cancelTask}, {0.15, (*tree).launch}, {0.15, (*tree).say},
		{0.10, (*tree).background}, {0.10, (*tree).interrupt}, {0.12, (*tree).branch}, {0.05, (*tree).selectRoot},
		{0.10, (*tree).steer}, {0.10, (*tree).raiseBudget}, {0.03, (*tree).close},
	} {
		if t.rng.Float64() < m.odds {
			plan = append(plan, act{3 + t.rng.Int64N(40), m.do})
		}
	}
	slices.SortFunc(plan, func(a, b act) int { return int(a.at - b.at) })
	return plan
}

// react decides what was asked, and does what is due.
func (t *tree) react(ctx context.Context) error {
	for _, id := range t.asks {
		if err := t.decide(ctx, id); err != nil {
			return err
		}
	}
	t.asks = nil
	if len(t.plan) > 0 && t.plan[0].at <= t.seen {
		return t.act(ctx)
	}
	return nil
}

// act does what comes next.
func (t *tree) act(ctx context.Context) error {
	next := t.plan[0]
	t.plan = t.plan[1:]
	return next.do(t, ctx)
}

func (t *tree) launch(ctx context.Context) error {
	req := &pb.SpawnTaskRequest{
		SessionId: t.session, Agent: "explore", Prompt: "leaf of a client", NotifyParent: t.rng.IntN(2) == 0,
		ForkContext: t.rng.IntN(3) == 0,
	}
	req.IdempotencyKey = t.key("task")
	req.Description = req.GetIdempotencyKey()
	return t.once(ctx, "SpawnTask", func(ctx context.Context) error {
		resp, err := t.tasks.SpawnTask(ctx, req, grpc.WaitForReady(true))
		if status.Code(err) == codes.FailedPrecondition {
			return nil // the root has as many children as it may
		}
		if err != nil {
			return err
		}
		return t.log.Add(chaos.Record{
			Kind: chaos.Launched, Session: t.session, Task: resp.GetTask().GetId(), Key: req.GetIdempotencyKey(),
			Notify: req.GetNotifyParent(),
		})
	})
}

// branch continues from one of the root's messages in another way: with a message, or with another
// answer of the model, which grows the tree once more.
func (t *tree) branch(ctx context.Context) error {
	if len(t.said) == 0 {
		return nil
	}
	t.counts.add(branched)
	from := t.said[t.rng.IntN(len(t.said))]
	req := &pb.CreateBranchRequest{SessionId: t.session, MessageId: from.GetMessageId(), Select: t.rng.IntN(2) == 0}
	req.IdempotencyKey = t.key("hello branch")
	req.Description = req.GetIdempotencyKey()
	if req.Regenerate = t.rng.IntN(3) == 0 && budgets(t.shape) == nil; !req.GetRegenerate() {
		req.Text = req.GetIdempotencyKey()
	}
	return t.once(ctx, "CreateBranch", func(ctx context.Context) error {
		resp, err := t.tasks.CreateBranch(ctx, req, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		r := chaos.Record{Kind: chaos.Branched, Session: t.session, Task: resp.GetTask().GetId(), Key: req.GetIdempotencyKey(), Ordinal: from.GetOrdinal()}
		records := []chaos.Record{r}
		if req.GetText() != "" {
			records = append(records, chaos.Record{Kind: chaos.MessageSent, Session: t.session, Task: r.Task, Key: req.GetText()})
		}
		if req.GetSelect() {
			records = append(records, chaos.Record{Kind: chaos.Selected, Session: t.session, Task: r.Task})
		}
		for _, r := range records {
			if err := t.log.Add(r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tree) selectRoot(ctx context.Context) error {
	return t.call(ctx, "SelectBranch", func(ctx context.Context) error {
		resp, err := t.tasks.SelectBranch(ctx, &pb.SelectBranchRequest{SessionId: t.session}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		return t.log.Add(chaos.Record{Kind: chaos.Selected, Session: t.session, Task: resp.GetTask().GetId()})
	})
}

func (t *tree) say(ctx context.Context) error {
	return t.send(ctx, "", pb.Delivery_DELIVERY_NEXT_BOUNDARY)
}

func (t *tree) interrupt(ctx context.Context) error {
	t.counts.add(interrupted)
	return t.send(ctx, "", pb.Delivery_DELIVERY_INTERRUPT)
}

// steer speaks to the task that started last, which works, waits, or has ended, unless it is a command.
func (t *tree) steer(ctx context.Context) error {
	if len(t.live) == 0 || t.live[len(t.live)-1].GetStarted().GetKind() == pb.TaskKind_TASK_KIND_SHELL {
		return nil
	}
	t.counts.add(steered)
	return t.send(ctx, t.live[len(t.live)-1].GetTaskId(), pb.Delivery_DELIVERY_NEXT_BOUNDARY)
}

func (t *tree) send(ctx context.Context, task string, delivery pb.Delivery) error {
	text := t.key("hello")
	return t.sendText(ctx, text, &pb.SendMessageRequest{SessionId: t.session, TaskId: task, IdempotencyKey: text, Delivery: delivery})
}

func (t *tree) sendText(ctx context.Context, text string, req *pb.SendMessageRequest) error {
	req.Message = &pb.UserMessage{Text: text}
	return t.once(ctx, "SendMessage", func(ctx context.Context) error {
		resp, err := t.sessions.SendMessage(ctx, req, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		return t.log.Add(chaos.Record{Kind: chaos.MessageSent, Session: t.session, Task: resp.GetTask().GetId(), Key: text})
	})
}

// raiseBudget gives a session that has a budget a larger one.
func (t *tree) raiseBudget(ctx context.Context) error {
	most := budgets(t.shape)
	if most == nil {
		return nil
	}
	t.counts.add(budgetRaised)
	most.Tokens += t.rng.Int64N(5000)
	return t.call(ctx, "UpdateSession", func(ctx context.Context) error {
		_, err := t.sessions.UpdateSession(ctx, &pb.UpdateSessionRequest{SessionId: t.session, Budget: most}, grpc.WaitForReady(true))
		return err
	})
}

// close closes the session. Nothing can be done to it after that.
func (t *tree) close(ctx context.Context) error {
	t.counts.add(sessionClosed)
	t.plan = nil
	return t.call(ctx, "CloseSession", func(ctx context.Context) error {
		began := time.Now()
		if _, err := t.sessions.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: t.session}, grpc.WaitForReady(true)); err != nil {
			return err
		}
		return t.log.Add(chaos.Record{Kind: chaos.Abandoned, Session: t.session, Began: began, After: t.seen})
	})
}

func (t *tree) cancelRoot(ctx context.Context) error {
	t.counts.add(treeCancelled)
	return t.cancel(ctx, t.root)
}

// cancelTask cancels the task that started last, which may be about to end.
func (t *tree) cancelTask(ctx context.Context) error {
	if len(t.live) == 0 {
		return nil
	}
	t.counts.add(taskCancelled)
	return t.cancel(ctx, t.live[len(t.live)-1].GetTaskId())
}

// background puts the task that started last into the background, unless it has
// ended.
func (t *tree) background(ctx context.Context) error {
	if len(t.live) == 0 {
		return nil
	}
	last := t.live[len(t.live)-1]
	if last.GetStarted().GetParentId() == "" {
		return nil
	}
	req := &pb.BackgroundTaskRequest{SessionId: t.session, TaskId: last.GetTaskId()}
	return t.call(ctx, "BackgroundTask", func(ctx context.Context) error {
		_, err := t.tasks.BackgroundTask(ctx, req, grpc.WaitForReady(true))
		if status.Code(err) == codes.FailedPrecondition {
			return nil
		}
		if err == nil {
			t.counts.add(taskBacked)
		}
		return err
	})
}

func (t *tree) cancel(ctx context.Context, task string) error {
	return t.call(ctx, "CancelTask", func(ctx context.Context) error {
		began := time.Now()
		_, err := t.tasks.CancelTask(ctx, &pb.CancelTaskRequest{SessionId: t.session, TaskId: task}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		return t.log.Add(chaos.Record{Kind: chaos.Cancelled, Session: t.session, Task: task, Began: began, After: t.seen})
	})
}

// decide decides an approval: a calm client allows, another one refuses now and then, or allows
// all that is alike. The tree may have been cancelled, or an approval like it have been given.
func (t *tree) decide(ctx context.Context, id string) error {
	req := &pb.DecideApprovalRequest{SessionId: t.session, ApprovalId: id, Decision: pb.Decision_DECISION_ALLOW}
	switch {
	case t.calm:
	case t.rng.IntN(8) == 0:
		req.Scope = pb.ApprovalScope_APPROVAL_SCOPE_SESSION
	case t.rng.IntN(4) == 0:
		req.Decision = pb.Decision_DECISION_DENY
	}
	if req.GetScope() == pb.ApprovalScope_APPROVAL_SCOPE_SESSION {
		if err := t.log.Add(chaos.Record{Kind: chaos.Granting, Session: t.session}); err != nil {
			return err
		}
	}
	return t.once(ctx, "DecideApproval", func(ctx context.Context) error {
		resp, err := t.approvals.DecideApproval(ctx, req, grpc.WaitForReady(true))
		if status.Code(err) == codes.FailedPrecondition {
			return nil
		}
		if err != nil {
			return err
		}
		return t.log.Add(chaos.Record{Kind: chaos.Decided, Session: t.session, Key: id, State: resp.GetApproval().GetState().String()})
	})
}
