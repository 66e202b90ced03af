package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/policy"
)

type approvalsCommand struct {
	remote
	Session *string `arg:"" optional:"" help:"The session; default: all sessions, and only open approvals."`
	All     bool    `env:"" help:"With a session: also show decided approvals."`
}

// Run lists approvals, oldest first.
func (c *approvalsCommand) Run(ctx context.Context, a *app) error {
	if c.All && c.Session == nil {
		return usagef("--all needs a session")
	}
	return c.with(func(to *client) error {
		var session string
		if c.Session != nil {
			var err error
			if session, err = to.session(ctx, *c.Session); err != nil {
				return err
			}
		}
		shown := 0
		err := to.eachApproval(ctx, session, c.All, func(p *pb.Approval) error {
			shown++
			if a.json {
				return a.printJSON(p)
			}
			text := approvalText(p)
			if p.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN {
				text += c.decisionHelp(a).forSession(p.GetSessionId()).fullArgument(p, p.GetTaskId(), "  ")
			}
			return a.print(text)
		})
		switch {
		case err == nil && shown == 0 && c.All:
			a.printNone("approvals")
		case err == nil && shown == 0:
			a.printNone("open approvals")
		}
		return err
	})
}

// eachApproval calls handle with every approval, oldest first.
func (c *client) eachApproval(ctx context.Context, session string, all bool, handle func(*pb.Approval) error) error {
	req := &pb.ListApprovalsRequest{SessionId: session, IncludeDecided: all, PageSize: 500}
	for {
		page, err := c.approvals.ListApprovals(ctx, req)
		if err != nil {
			return during("listing the approvals", err)
		}
		for _, p := range page.GetApprovals() {
			if err := handle(p); err != nil {
				return err
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// approvalText formats an approval on one line: id, state, session, call, and what asks.
func approvalText(p *pb.Approval) string {
	state := strings.ToLower(strings.TrimPrefix(p.GetState().String(), "APPROVAL_STATE_"))
	if p.GetScope() == pb.ApprovalScope_APPROVAL_SCOPE_SESSION {
		state += " for the session"
	}
	text := fmt.Sprintf("%s  %s  session %s  task %s  %s", safeLine(p.GetId()), state, idEnd(p.GetSessionId()), idEnd(p.GetTaskId()),
		callText(p))
	if by := askedBy(askers(p)); by != "" {
		text += "  " + by
	}
	if m := safeLine(p.GetMessage()); m != "" {
		text += "  " + m
	}
	return text
}

// askedBy says what asks about a call; empty if nothing does.
func askedBy(askers []policy.Asker) string {
	var by []string
	for _, asker := range askers {
		show := safeExact
		if asker.Rule == "" { // a model may have chosen the target of a link
			show = quoted
		}
		by = append(by, asker.Text(show))
	}
	if by == nil {
		return ""
	}
	return "asked by " + strings.Join(by, ", ")
}

// askers returns what asks about a call.
func askers(q ruledCall) []policy.Asker {
	return policy.Askers(q.GetTool(), q.GetArgument(), q.GetRules())
}

// callText formats a call on one line: its tool and everything that is known of its argument.
func callText(q approvalCall) string {
	if q.GetArgument() == "" {
		return safeLine(q.GetTool())
	}
	return safeLine(q.GetTool()) + " " + orDefault(argumentParts(q), safeExact(q.GetArgument()))
}

// quotedCall is callText for use inside a sentence.
func quotedCall(q approvalCall) string {
	if q.GetArgument() == "" {
		return safeLine(q.GetTool())
	}
	return safeLine(q.GetTool()) + " " + orDefault(argumentParts(q), quoted(q.GetArgument()))
}

// argumentParts returns the known parts of an argument that was cut, and how much is missing,
// outside of the quotation marks so that it cannot be mistaken for a part of the argument. It
// returns "" for a complete argument.
func argumentParts(q approvalCall) string {
	if q.GetArgumentCut() <= 0 {
		return ""
	}
	left := " [" + plural(q.GetArgumentCut(), "byte") + " not shown]"
	head, tail, found := excerpt.Parts(q.GetArgument(), int(q.GetArgumentCut()))
	if !found {
		return quoted(q.GetArgument()) + left
	}
	return quoted(head) + left + " " + quoted(tail)
}

// approvalCall is the call of an approval, from a list or from an event.
type approvalCall interface {
	ruledCall
	GetArgumentCut() int64
}

// ruledCall is a call that rules match.
type ruledCall interface {
	GetTool() string
	GetArgument() string
	GetRules() []string
}
