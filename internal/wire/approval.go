package wire

import (
	"fmt"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tree"
)

// Approval converts an approval.
func Approval(session tree.SessionID, a *tree.Approval) *pb.Approval {
	return &pb.Approval{
		SessionId: id(session), Id: id(a.ID), TaskId: id(a.Task), Run: int32(a.Run), Call: callRef(a.Ref),
		Tool: a.Tool, Argument: a.Argument, ArgumentCut: int64(a.Cut), Rules: a.Rules, State: pb.ApprovalState(a.State),
		Scope: scope(a.State, a.ForSession), Message: a.Message,
		CreateTime: timestamp(a.AskedAt), ExpireTime: timestamp(a.Due), DecideTime: timestamp(a.DecidedAt),
	}
}

func scope(state tree.ApprovalState, forSession bool) pb.ApprovalScope {
	switch {
	case state != tree.ApprovalAllowed:
		return pb.ApprovalScope_APPROVAL_SCOPE_UNSPECIFIED
	case forSession:
		return pb.ApprovalScope_APPROVAL_SCOPE_SESSION
	}
	return pb.ApprovalScope_APPROVAL_SCOPE_ONCE
}

// approvalEvent sets the kind of an event that is about an approval.
func approvalEvent(out *pb.Event, kind tree.EventKind) {
	switch k := kind.(type) {
	case tree.ApprovalRequested:
		out.Kind = &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{
			ApprovalId: id(k.Approval), Call: callRef(k.Ref), Tool: k.Tool, Argument: k.Argument, ArgumentCut: int64(k.Cut),
			Rules: k.Rules, ExpireTime: timestamp(k.Due),
		}}
	case tree.ApprovalDecision:
		out.Kind = &pb.Event_ApprovalDecided{ApprovalDecided: &pb.ApprovalDecided{
			ApprovalId: id(k.Approval), Call: callRef(k.Ref), State: pb.ApprovalState(k.State),
			Scope: scope(k.State, k.ForSession), Message: k.Message,
		}}
	case tree.ApprovalLapsed:
		out.Kind = &pb.Event_ApprovalExpired{ApprovalExpired: &pb.ApprovalExpired{
			ApprovalId: id(k.Approval), Call: callRef(k.Ref),
		}}
	}
}

// DecisionFrom parses a decision on an approval. The session is the zero id if none is named.
func DecisionFrom(req *pb.DecideApprovalRequest) (tree.SessionID, tree.DecideApproval, error) {
	var cmd tree.DecideApproval
	session, err := optionalID[tree.Session](req.GetSessionId())
	if err != nil {
		return session, cmd, tree.ErrBadInput.With("session_id: %v", err)
	}
	approval, err := tree.ParseID[tree.Approval](req.GetApprovalId())
	if err != nil {
		return session, cmd, tree.ErrBadInput.With("approval_id: %v", err)
	}
	cmd = tree.DecideApproval{
		ID: approval, Message: req.GetMessage(),
		Allow:      req.GetDecision() == pb.Decision_DECISION_ALLOW,
		ForSession: req.GetScope() == pb.ApprovalScope_APPROVAL_SCOPE_SESSION,
	}
	if !cmd.Allow && req.GetDecision() != pb.Decision_DECISION_DENY {
		return session, cmd, tree.ErrBadInput.With("decision: expected DECISION_ALLOW or DECISION_DENY, got %s", req.GetDecision())
	}
	if _, known := pb.ApprovalScope_name[int32(req.GetScope())]; !known {
		return session, cmd, tree.ErrBadInput.With("scope: %d is not a known value", req.GetScope())
	}
	return session, cmd, nil
}

// ApprovalsFrom parses how a session handles the approvals that its sub-agents request.
func ApprovalsFrom(p *pb.Permissions) (policy.Approvals, error) {
	switch p.GetApprovals() {
	case pb.SubagentApprovals_SUBAGENT_APPROVALS_UNSPECIFIED:
		return policy.ApprovalsUnspecified, nil
	case pb.SubagentApprovals_SUBAGENT_APPROVALS_DENY:
		return policy.ApprovalsDeny, nil
	case pb.SubagentApprovals_SUBAGENT_APPROVALS_ESCALATE:
		return policy.ApprovalsEscalate, nil
	}
	return policy.ApprovalsUnspecified, tree.ErrBadInput.With("permissions: approvals: %d is not a known value", p.GetApprovals())
}

// maxRules bounds the rules of a session.
const maxRules = 100

// LayerFrom parses the permissions of a session.
func LayerFrom(p *pb.Permissions) (policy.Layer, error) {
	layer := policy.Layer{Mode: policy.Mode(p.GetMode())}
	if _, known := pb.PermissionMode_name[int32(p.GetMode())]; !known {
		return layer, tree.ErrBadInput.With("permissions: mode: %d is not a known value", p.GetMode())
	}
	if n := len(p.GetAllow()) + len(p.GetAsk()) + len(p.GetDeny()); n > maxRules {
		return layer, tree.ErrTooLarge.With("permissions: there are %d rules, the limit is %d", n, maxRules)
	}
	for _, list := range []struct {
		name  string
		texts []string
		rules *[]policy.Rule
	}{
		{"allow", p.GetAllow(), &layer.Allow}, {"ask", p.GetAsk(), &layer.Ask}, {"deny", p.GetDeny(), &layer.Deny},
	} {
		var err error
		if *list.rules, err = policy.NewRules(list.texts); err != nil {
			return layer, tree.ErrBadInput.With("permissions: %s: %v", list.name, err)
		}
	}
	return layer, nil
}

func askFrom(a *pb.Ask, from tree.From) (tree.Command, error) {
	if a.GetBlock() < 0 {
		return nil, fmt.Errorf("ask: block %d", a.GetBlock())
	}
	return tree.Ask{From: from, Block: int(a.GetBlock()), Argument: a.GetArgument(), Rules: a.GetRules()}, nil
}
