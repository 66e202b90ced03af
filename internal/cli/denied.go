package cli

import (
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

const (
	// deniedNamed is how many calls that were denied are named where all are told of in one line.
	deniedNamed = 2
	// deniedMost is how much is shown there of what a call is about, in bytes.
	deniedMost = 100

	// inDefinitions is said with --allow, as of several modes the strictest counts.
	inDefinitions = " (a definition with a mode must allow it too)"
)

// deniedText says that a call was denied, and why; empty if it was not, or if somebody was asked:
// the event of the approval tells of that.
func deniedText(d *pb.Denial) string {
	switch d.GetCause() {
	case pb.DenialCause_DENIAL_CAUSE_PERMISSION, pb.DenialCause_DENIAL_CAUSE_NOBODY_ASKED:
		return deniedCall(d, len(d.GetArgument())) + ": denied: " + safeLine(d.GetDetail())
	}
	return ""
}

// deniedCall names a call that was denied, with the beginning of what it is about.
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

// denials are the calls of a session that were denied since nobody was asked. What permissions
// deny is not among them: somebody has said that.
type denials struct {
	count, named int64 // all of them, and those that names are of
	names        []string
	byMode       int64 // about which the mode alone asks: rules would allow them
	byDefinition int64 // of agents whose definitions say that nobody is asked
}

// take takes in an event of the session.
func (d *denials) take(e *pb.Event) {
	denial := e.GetCallClosed().GetDenial()
	if d == nil || denial.GetCause() != pb.DenialCause_DENIAL_CAUSE_NOBODY_ASKED {
		return
	}
	d.count++
	name, by := deniedCall(denial, deniedMost), byRule(denial)
	if by == "" {
		d.byMode++
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
	if len(d.names) < deniedNamed {
		d.names = append(d.names, name)
		d.named++
	}
}

// text tells of them in one line, and what helps; empty if there are none. ask says how what
// sub-agents ask comes to somebody; empty if nothing that could be said here brings it there.
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
	text += ", as " + why + ": " + strings.Join(d.names, ", ")
	if more := d.count - d.named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	var helps []string
	switch d.byMode {
	case 0: // what a rule asks about no other rule allows
	case d.count:
		helps = append(helps, "allow with --allow RULE what may run"+inDefinitions)
	default:
		helps = append(helps, "allow with --allow RULE what only the mode asks about"+inDefinitions)
	}
	if ask != "" && d.byDefinition < d.count {
		helps = append(helps, ask)
	}
	if len(helps) > 0 {
		text += "; " + strings.Join(helps, ", or ")
	}
	return text
}
