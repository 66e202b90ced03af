package cli

import (
	"strings"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// denied is the event of a call that was denied.
func denied(d *pb.Denial) *pb.Event {
	return &pb.Event{Kind: &pb.Event_CallClosed{CallClosed: &pb.CallClosed{IsError: true, Denial: d}}}
}

// unasked is that of one about which nobody was asked.
func unasked(argument string, byDefinition bool, rules ...string) *pb.Event {
	return denied(&pb.Denial{
		Cause: pb.DenialCause_DENIAL_CAUSE_NOBODY_ASKED, Tool: "bash", Argument: argument, Rules: rules, ByDefinition: byDefinition,
	})
}

// TestDenialsSayWhatHelps: nothing is advised that would change nothing.
func TestDenialsSayWhatHelps(t *testing.T) {
	t.Parallel()
	const ask = "keep it"
	push, long := unasked("git push", false, "bash(git *)"), "echo \u202e"+strings.Repeat("x", maxDeniedArgument)
	for want, test := range map[string]struct {
		ask    string
		events []*pb.Event
	}{
		"": {ask, []*pb.Event{
			{}, denied(nil), denied(&pb.Denial{Cause: pb.DenialCause_DENIAL_CAUSE_PERMISSION, Tool: "bash"}),
			denied(&pb.Denial{Cause: pb.DenialCause_DENIAL_CAUSE_DECISION, Tool: "bash"}),
		}},
		`1 call of a sub-agent was denied, because nobody is asked: bash "make"; allow such calls with --allow RULE (a definition with a mode must allow it too), or keep it`: {
			ask, []*pb.Event{unasked("make", false, "bash=make")},
		},
		`1 call of a sub-agent was denied, because nobody is asked: bash "make"; allow such calls with --allow RULE (a definition with a mode must allow it too)`: {
			"", []*pb.Event{unasked("make", false, "bash=make")},
		},
		`2 calls of sub-agents were denied, because nobody is asked: bash "git push" (asked by bash(git *)); keep it`: {
			ask, []*pb.Event{push, push},
		},
		`4 calls of sub-agents were denied, because nobody is asked: bash "git push" (asked by bash(git *)), bash "a" and 1 more;` +
			` allow calls that only the mode asks about with --allow RULE (a definition with a mode must allow it too), or keep it`: {
			ask, []*pb.Event{push, unasked("a", true, "bash=a"), unasked("b", false, "bash=b"), unasked("a", false, "bash=a")},
		},
		`1 call of a sub-agent was denied, because its definition says (approvals: deny): bash "a"; allow such calls with --allow RULE (a definition with a mode must allow it too)`: {
			ask, []*pb.Event{unasked("a", true, "bash=a")},
		},
		`2 calls of sub-agents were denied, because their definitions say (approvals: deny): bash "a" (asked by bash), bash "b" (asked by bash)`: {
			ask, []*pb.Event{unasked("a", true, "bash"), unasked("b", true, "bash")},
		},
		`1 call of a sub-agent was denied, because nobody is asked: bash "date > d.txt; ls"; allow such calls with --allow bash, because no glob matches such lines (a definition with a mode must allow it too)`: {
			"", []*pb.Event{unasked("date > d.txt; ls", false, "bash=date > d.txt; ls")},
		},
		`2 calls of sub-agents were denied, because nobody is asked: bash "make", bash "ls $X";` +
			` allow such calls with --allow RULE, and lines that no glob matches with --allow bash (a definition with a mode must allow it too)`: {
			"", []*pb.Event{unasked("make", false, "bash=make"), unasked("ls $X", false, "bash=ls $X")},
		},
		`1 call of a sub-agent was denied, because nobody is asked: bash "ls $X…"; allow such calls with --allow RULE (a definition with a mode must allow it too)`: {
			"", []*pb.Event{unasked("ls $X…", false, "bash=ls $X…")},
		},
		`1 call of a sub-agent was denied, because nobody is asked: bash "echo \u202e` + strings.Repeat("x", maxDeniedArgument-8) + `"…; allow such calls with --allow RULE (a definition with a mode must allow it too)`: {
			"", []*pb.Event{unasked(long, false, "bash="+long)},
		},
	} {
		var d denials
		for _, e := range test.events {
			d.add(e)
		}
		if got := d.text(test.ask); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	var none *denials
	none.add(push) // of a session of which nobody wants to know
}

// TestDeniedCallsAreDrawn as what the task is doing, and counted.
func TestDeniedCallsAreDrawn(t *testing.T) {
	t.Parallel()
	f := newForest()
	e := unasked("git push", false)
	e.Seq, e.TaskId = 1, "t"
	f.apply(e)
	n := f.nodes["t"]
	n.agent, n.state = "fixer", pb.TaskState_TASK_STATE_RUNNING
	n.tools = 3
	lines := append(f.draw(canvas{theme: theme{}, width: 100}), f.summary(n.lastReported, "; "),
		f.partialSummary(&pb.Session{DeniedCalls: 2}, n.lastReported, "; "))
	for i, want := range []string{`denied: bash "git push"`, "3 tool calls, 1 denied", "; 2 calls denied; "} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("%q is not in %q", want, lines[i])
		}
	}
}
