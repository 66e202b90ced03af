package cli

import (
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/policy"
)

// permissionFlags are the permissions of a session, apart from --approvals, whose default differs
// between commands.
type permissionFlags struct {
	PermissionMode string   `enum:"default,accept_edits,plan,bypass," default:"" placeholder:"MODE" help:"Handling of calls that no rule matches: default, accept_edits, plan or bypass."`
	Allow          []string `sep:"none" placeholder:"RULE" help:"Calls that run without approval, for example 'bash(git *)'. Can be repeated, like --ask and --deny; the variable has one on each line."`
	Ask            []string `sep:"none" placeholder:"RULE" help:"Calls that need approval."`
	Deny           []string `sep:"none" placeholder:"RULE" help:"Calls that are denied."`
}

// permissions returns the permissions in the flags and in --approvals; nil if there are none.
func (p permissionFlags) permissions(approvals string) (*pb.Permissions, error) {
	if p.PermissionMode == "" && approvals == "" && len(p.Allow)+len(p.Ask)+len(p.Deny) == 0 {
		return nil, nil
	}
	for _, of := range []struct {
		flag  string
		rules *[]string
	}{{"--allow", &p.Allow}, {"--ask", &p.Ask}, {"--deny", &p.Deny}} {
		*of.rules = separateLines(*of.rules)
		if _, err := policy.NewRules(*of.rules); err != nil {
			return nil, usagef("%s: %w", of.flag, err)
		}
	}
	out := &pb.Permissions{Allow: p.Allow, Ask: p.Ask, Deny: p.Deny}
	if p.PermissionMode != "" {
		out.Mode = pb.PermissionMode(pb.PermissionMode_value["PERMISSION_MODE_"+strings.ToUpper(p.PermissionMode)])
	}
	if approvals != "" {
		out.Approvals = pb.SubagentApprovals(pb.SubagentApprovals_value["SUBAGENT_APPROVALS_"+strings.ToUpper(approvals)])
	}
	return out, nil
}

// separateLines splits values with several lines, such as those of a variable, without blank
// lines. An empty value stays: it is a mistake.
func separateLines(values []string) (lines []string) {
	for _, value := range values {
		for line := range strings.SplitSeq(value, "\n") {
			if line = strings.TrimSpace(line); line != "" || !strings.Contains(value, "\n") {
				lines = append(lines, line)
			}
		}
	}
	return lines
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
