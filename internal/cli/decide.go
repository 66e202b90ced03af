package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// approvalSelection selects the approvals to decide on.
type approvalSelection struct {
	remote
	ID  []string `arg:"" optional:"" help:"The approvals; the last characters of an open one's id are enough."`
	All *string  `env:"" placeholder:"SESSION" help:"All open approvals of this session, including those of its sub-agents."`
}

type approveCommand struct {
	approvalSelection
	ForSession bool   `env:"" help:"Allow all calls of the session that the same rules ask about: those that wait already, and later ones."`
	Message    string `env:"" placeholder:"TEXT" help:"Comment on the decision."`
}

// Run allows calls.
func (c *approveCommand) Run(ctx context.Context, a *app) error {
	req := &pb.DecideApprovalRequest{Decision: pb.Decision_DECISION_ALLOW, Message: c.Message}
	if c.ForSession {
		req.Scope = pb.ApprovalScope_APPROVAL_SCOPE_SESSION
	}
	return c.decide(ctx, a, req)
}

type denyCommand struct {
	approvalSelection
	Message string `env:"" placeholder:"TEXT" help:"Reason; shown to the agent's model."`
}

// Run denies calls.
func (c *denyCommand) Run(ctx context.Context, a *app) error {
	return c.decide(ctx, a, &pb.DecideApprovalRequest{Decision: pb.Decision_DECISION_DENY, Message: c.Message})
}

// decide decides on all selected approvals in the same way. It finds all of them before it decides
// on the first. If one is refused, it still decides on the others.
func (d *approvalSelection) decide(ctx context.Context, a *app, req *pb.DecideApprovalRequest) error {
	switch {
	case d.All == nil && len(d.ID) == 0:
		return usagef("give the ids of approvals, or --all SESSION; see coppice approvals")
	case d.All != nil && len(d.ID) > 0:
		return usagef("--all decides all approvals of a session and cannot be used with ids")
	}
	return d.with(func(c *client) error {
		ids, err := d.ids(ctx, c)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			a.printNone("open approvals")
		}
		var refused []error
		for _, id := range ids {
			if ctx.Err() != nil { // this one is not decided
				return errors.Join(append(refused, context.Cause(ctx))...)
			}
			req.ApprovalId = id
			err := c.decide(ctx, a, req)
			if err != nil && len(ids) > 1 {
				err = fmt.Errorf("%s: %w", idEnd(id), err)
			}
			refused = append(refused, err)
			if isTemporary(err) {
				break
			}
		}
		return errors.Join(refused...)
	})
}

// ids returns the ids of the selected approvals, each once.
func (d *approvalSelection) ids(ctx context.Context, c *client) (ids []string, err error) {
	if d.All != nil {
		session, err := c.session(ctx, *d.All)
		if err != nil {
			return nil, err
		}
		err = c.eachApproval(ctx, session, false, func(p *pb.Approval) error {
			ids = append(ids, p.GetId())
			return nil
		})
		return ids, err
	}
	for _, name := range d.ID {
		id, err := c.approval(ctx, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// decide decides on one approval and prints it.
func (c *client) decide(ctx context.Context, a *app, req *pb.DecideApprovalRequest) error {
	resp, err := c.approvals.DecideApproval(ctx, req)
	switch {
	case err != nil:
		return during("deciding the approval", err)
	case a.json:
		return a.printJSON(resp)
	}
	return a.print(approvalText(resp.GetApproval()))
}

// approval finds an open approval by its id or the end of its id.
func (c *client) approval(ctx context.Context, name string) (string, error) {
	switch {
	case isID(name):
		return name, nil
	case name == last:
		return "", usagef("expected the id of an approval, not %s, which is a session; see coppice approvals", last)
	}
	if err := checkSuffix("approval", name); err != nil {
		return "", err
	}
	var found []string
	err := c.eachApproval(ctx, "", false, func(p *pb.Approval) error {
		if strings.HasSuffix(p.GetId(), strings.ToLower(name)) {
			found = append(found, p.GetId())
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return single(found, "open approval", name)
}
