package cli

import (
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

const (
	// maxDeniedNames is how many denied calls are named in the summary line.
	maxDeniedNames = 2
	// maxDeniedArgument is how much of an argument is shown there, in bytes.
	maxDeniedArgument = 100

	// inDefinitionsText is added to advice on --allow, because the strictest of several modes
	// counts.
	inDefinitionsText = " (a definition with a mode must allow it too)"
)

// deniedText says that a call was denied, and why. It returns "" if it was not, or if somebody was
// asked: then the approval's own event is shown.
func deniedText(d *pb.Denial) string {
	switch d.GetCause() {
	case pb.DenialCause_DENIAL_CAUSE_PERMISSION, pb.DenialCause_DENIAL_CAUSE_NOBODY_ASKED:
		return deniedCall(d, len(d.GetArgument())) + ": denied: " + safeLine(d.GetDetail())
	}
	return ""
}

// deniedCall formats a denied call with the beginning of its argument.
func deniedCall(d *pb.Denial, most int) string {
	if d.GetArgument() == "" {
		return safeLine(d.GetTool())
	}
	shown, more := excerpt.Head(d.GetArgument(), most), ""
	if shown != d.GetArgument() {
		more = "…"
	}
	return safeLine(d.GetTool()) + " " + quoted(shown) + more
}

// deniedCalls counts calls that were denied.
func deniedCalls(n int64) string { return plural(n, "call") + " denied" }

// denials collects the calls of a session that were denied because nobody was asked. Calls that
// the permissions deny are not included.
type denials struct {
	count, named int64 // all calls, and the calls that names stands for
	names        []string
	byMode       int64 // only the mode asks about them, so rules can allow them
	byBareBash   int64 // of byMode: no glob matches their lines
	byDefinition int64 // of agents whose definitions deny questions
}

// add processes an event of the session.
func (d *denials) add(e *pb.Event) {
	denial := e.GetCallClosed().GetDenial()
	if d == nil || denial.GetCause() != pb.DenialCause_DENIAL_CAUSE_NOBODY_ASKED {
		return
	}
	d.count++
	name, by := deniedCall(denial, maxDeniedArgument), byRule(denial)
	if by == "" {
		d.byMode++
		if !strings.HasSuffix(denial.GetArgument(), "…") && onlyBareBash(denial) { // not of one that may be cut
			d.byBareBash++
		}
	} else {
		name += " (" + by + ")"
	}
	if denial.GetByDefinition() {
		d.byDefinition++
	}
	for _, known := range d.names {
		if known == name {
			d.named++
			return
		}
	}
	if len(d.names) < maxDeniedNames {
		d.names = append(d.names, name)
		d.named++
	}
}

// text summarises the denials on one line, with advice; empty if there are none. ask says how
// the questions of sub-agents can reach somebody; empty if that is not possible here.
func (d *denials) text(ask string) string {
	if d.count == 0 {
		return ""
	}
	text, says := plural(d.count, "call")+" of sub-agents were denied", "their definitions say"
	if d.count == 1 {
		text, says = "1 call of a sub-agent was denied", "its definition says"
	}
	why := "nobody is asked"
	if d.byDefinition == d.count {
		why = says + " (approvals: deny)"
	}
	text += ", because " + why + ": " + strings.Join(d.names, ", ")
	if more := d.count - d.named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	var helps []string
	if d.byMode > 0 { // no other rule can allow what a rule asks about
		helps = append(helps, d.allowText())
	}
	if ask != "" && d.byDefinition < d.count {
		helps = append(helps, ask)
	}
	if len(helps) > 0 {
		text += "; " + strings.Join(helps, ", or ")
	}
	return text
}

// allowText says how to allow the calls that only the mode asks about.
func (d *denials) allowText() string {
	which, with := "calls that only the mode asks about", "RULE"
	if d.byMode == d.count {
		which = "such calls"
	}
	switch {
	case d.byBareBash == d.byMode:
		with = "bash, because no glob matches such lines"
	case d.byBareBash > 0:
		with = "RULE, and lines that no glob matches with --allow bash"
	}
	return "allow " + which + " with --allow " + with + inDefinitionsText
}
