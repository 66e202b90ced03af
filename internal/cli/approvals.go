package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-run/coppice/internal/excerpt"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/policy"
)

// permissionFlags are the permissions of a session.
type permissionFlags struct {
	PermissionMode string   `placeholder:"MODE" help:"Handling of calls that no rule matches: default, accept_edits, plan or bypass."`
	Allow          []string `sep:"none" placeholder:"RULE" help:"Calls that run without approval, for example 'bash(git *)'. Can be repeated, like --ask and --deny."`
	Ask            []string `sep:"none" placeholder:"RULE" help:"Calls that need approval."`
	Deny           []string `sep:"none" placeholder:"RULE" help:"Calls that are denied."`
	Approvals      string   `env:"" enum:"deny,escalate," default:"" placeholder:"WHERE" help:"Handling of sub-agents' calls that need approval: deny, or escalate to the session's approvals. Definitions can override it."`
}

// permissions returns the permissions in the flags; nil if there are none.
func (p permissionFlags) permissions() (*pb.Permissions, error) {
	if p.PermissionMode == "" && p.Approvals == "" && len(p.Allow)+len(p.Ask)+len(p.Deny) == 0 {
		return nil, nil
	}
	for _, of := range []struct {
		flag  string
		rules []string
	}{{"--allow", p.Allow}, {"--ask", p.Ask}, {"--deny", p.Deny}} {
		if _, err := policy.ParseRules(of.rules); err != nil {
			return nil, usagef("%s: %w", of.flag, err)
		}
	}
	out := &pb.Permissions{Allow: p.Allow, Ask: p.Ask, Deny: p.Deny}
	if p.PermissionMode != "" {
		mode, known := pb.PermissionMode_value["PERMISSION_MODE_"+strings.ToUpper(p.PermissionMode)]
		if !known || mode == 0 {
			return nil, usagef("--permission-mode is %q; expected default, accept_edits, plan or bypass", p.PermissionMode)
		}
		out.Mode = pb.PermissionMode(mode)
	}
	if p.Approvals != "" {
		out.Approvals = pb.SubagentApprovals(pb.SubagentApprovals_value["SUBAGENT_APPROVALS_"+strings.ToUpper(p.Approvals)])
	}
	return out, nil
}

// denyWithoutDecider returns the permissions of a session in which nobody can decide: unless the
// flags say otherwise, the questions of sub-agents are denied, and the sub-agents continue.
func denyWithoutDecider(p *pb.Permissions) *pb.Permissions {
	if p.GetApprovals() != pb.SubagentApprovals_SUBAGENT_APPROVALS_UNSPECIFIED {
		return p
	}
	if p == nil {
		p = &pb.Permissions{}
	}
	p.Approvals = pb.SubagentApprovals_SUBAGENT_APPROVALS_DENY
	return p
}

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

// applyApproval applies an event about the task's approvals.
func (n *node) applyApproval(e *pb.Event) {
	switch k := e.GetKind().(type) {
	case *pb.Event_ApprovalRequested:
		n.questions = append(n.questions, k.ApprovalRequested)
	case *pb.Event_ApprovalDecided:
		n.removeQuestion(k.ApprovalDecided.GetApprovalId())
	case *pb.Event_ApprovalExpired:
		n.removeQuestion(k.ApprovalExpired.GetApprovalId())
	}
}

// questionSettledBy returns the open question that an event settles; nil if there is none. Call it
// before the event is applied.
func (f *forest) questionSettledBy(e *pb.Event) *pb.ApprovalRequested {
	id := orDefault(e.GetApprovalDecided().GetApprovalId(), e.GetApprovalExpired().GetApprovalId())
	n := f.nodes[e.GetTaskId()]
	if n == nil || id == "" {
		return nil
	}
	for _, q := range n.questions {
		if q.GetApprovalId() == id {
			return q
		}
	}
	return nil
}

func (n *node) removeQuestion(approval string) {
	for i, q := range n.questions {
		if q.GetApprovalId() == approval {
			n.questions = append(n.questions[:i:i], n.questions[i+1:]...)
			return
		}
	}
}

// openQuestions counts the open questions of all tasks.
func (f *forest) openQuestions() int64 {
	var all int64
	for _, n := range f.order {
		all += int64(len(n.questions))
	}
	return all
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

// askText says what a task asks, and how to answer if the approval has an id.
func askText(q approvalCall, task, approval string, by decisionHelp) string {
	text := "may " + quotedCall(q) + " run?"
	if by.decideText == nil {
		return text + by.fullArgument(q, task, " ")
	}
	if more := byMode(q); more != "" {
		text += " " + more + ";"
	}
	return text + " " + safeLine(by.decideText(idEnd(approval), byRule(q))) + by.fullArgument(q, task, "; ")
}

// byRule names the rules that ask; empty if only the mode asks.
func byRule(q ruledCall) string {
	return askedBy(slices.DeleteFunc(askers(q), func(a policy.Asker) bool { return a.Rule == "" }))
}

// byMode says that the mode asks about more than the shown argument; empty if it does not.
func byMode(q approvalCall) string {
	return askedBy(slices.DeleteFunc(askers(q), func(a policy.Asker) bool { return len(a.For) == 0 }))
}

// settledText says how a question was settled. It names the call if that is known, because a task
// may have several questions.
func settledText(q *pb.ApprovalRequested, became, more string) string {
	if q == nil {
		return became
	}
	return ansi.Truncate(quotedCall(q), inputCells, more) + ": " + became
}

// decidedText says how a question was decided.
func decidedText(d *pb.ApprovalDecided) string {
	switch {
	case d.GetState() == pb.ApprovalState_APPROVAL_STATE_WITHDRAWN:
		return "withdrawn because its run ended"
	case d.GetState() == pb.ApprovalState_APPROVAL_STATE_DENIED:
		return strings.TrimRight("denied: "+safeLine(d.GetMessage()), ": ")
	case d.GetScope() == pb.ApprovalScope_APPROVAL_SCOPE_SESSION:
		return "allowed for the session"
	}
	return "allowed"
}

// decisionHelp tells a person how to decide on the approvals of a session from another terminal.
// The zero value tells nothing.
type decisionHelp struct {
	listCommand string                               // lists approvals; empty if nothing can
	decideText  func(approval, byRule string) string // how to decide on an approval, given the rules that ask; no rules: the mode asks

	fullTranscript string // shows a conversation in full, without the session and the task; empty if nothing can
	session        string
}

// forSession returns the help for a session.
func (d decisionHelp) forSession(session string) decisionHelp {
	d.session = session
	return d
}

// fullArgument says where the complete argument of a call can be read, if it was cut.
func (d decisionHelp) fullArgument(q approvalCall, task, after string) string {
	if q.GetArgumentCut() <= 0 || d.fullTranscript == "" {
		return ""
	}
	return after + "all of it: " + safeLine(fmt.Sprintf("%s %s %s", d.fullTranscript, idEnd(d.session), idEnd(task)))
}

// remoteDecisionHelp is the help for an orchestrator that commands reach with flags.
func remoteDecisionHelp(flags string) decisionHelp {
	return decisionHelp{listCommand: "coppice approvals" + flags, fullTranscript: "coppice transcript --full" + flags, decideText: func(id, _ string) string {
		return fmt.Sprintf("coppice approve%s %s, or coppice deny%[1]s %[2]s", flags, id)
	}}
}

// noDecisionHelp is the help for a session that no other command can reach, and says why. keep is
// the flag that keeps the session so that it can be reached later; empty if there is none.
func noDecisionHelp(why, keep string) decisionHelp {
	byRules, byMode := why, why+"; allow it with --allow RULE"+inDefinitionsText
	if keep != "" {
		byRules += ": keep it with " + keep
		byMode += ", or keep the session with " + keep
	}
	return decisionHelp{decideText: func(_, byRule string) string {
		if byRule != "" { // no other rule can allow what a rule asks about
			return byRule + "; " + byRules
		}
		return byMode
	}}
}

// reportBlocked prints the approvals that a blocked session waits for, and how to decide on them.
func (a *app) reportBlocked(ctx context.Context, f showOptions) error {
	asks, err := f.client.openQuestions(ctx, f.session, f.decisionHelp)
	if err != nil {
		return err
	}
	return a.blockedExit(asks)
}

// blockedExit prints questions and returns the exit code of a blocked session.
func (a *app) blockedExit(asks []string) error {
	for _, ask := range asks {
		a.warn("blocked: " + ask)
	}
	return exitCode(exitUnfinished)
}

// openQuestions returns the open questions of a session, with how to decide on them.
func (c *client) openQuestions(ctx context.Context, session string, by decisionHelp) (asks []string, err error) {
	err = c.eachApproval(ctx, session, false, func(p *pb.Approval) error {
		asks = append(asks, askText(p, p.GetTaskId(), p.GetId(), by.forSession(session)))
		return nil
	})
	return asks, err
}
