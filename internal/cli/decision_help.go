package cli

import (
	"fmt"

	"github.com/coppice-run/coppice/internal/policy"
)

// decisionHelp tells a person how to decide on the approvals of a session from another terminal.
// The zero value tells nothing.
type decisionHelp struct {
	listCommand string                                       // lists approvals; empty if nothing can
	decideText  func(approval string, q approvalCall) string // how to decide on an approval of a call

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
	return decisionHelp{listCommand: "coppice approvals" + flags, fullTranscript: "coppice transcript --full" + flags, decideText: func(id string, _ approvalCall) string {
		return fmt.Sprintf("coppice approve%s %s, or coppice deny%[1]s %[2]s", flags, id)
	}}
}

// noDecisionHelp is the help for a session that no other command can reach, and says why. keep is
// the flag that keeps the session so that it can be reached later; empty if there is none.
func noDecisionHelp(why, keep string) decisionHelp {
	byRules, orKeep := why, ""
	if keep != "" {
		byRules += ": keep it with " + keep
		orKeep = ", or keep the session with " + keep
	}
	return decisionHelp{decideText: func(_ string, q approvalCall) string {
		if rules := byRule(q); rules != "" { // no other rule can allow what a rule asks about
			return rules + "; " + byRules
		}
		with := "RULE"
		if q.GetArgumentCut() == 0 && onlyBareBash(q) {
			with = "bash, because no glob matches such a line"
		}
		return why + "; allow it with --allow " + with + inDefinitionsText + orKeep
	}}
}

// onlyBareBash reports whether a call is a command line that no bash(GLOB) can allow. The argument
// has to be complete.
func onlyBareBash(q ruledCall) bool {
	return q.GetTool() == policy.BashTool && !policy.GlobsApply(q.GetArgument())
}
