package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/flags"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestAnApprovalShowsTheCallThatRuns and no other one.
func TestAnApprovalShowsTheCallThatRuns(t *testing.T) {
	t.Parallel()
	const id = "00000000-0000-7000-8000-0000deadbeef"
	p := &pb.Approval{
		Id: id, SessionId: id, TaskId: id, State: pb.ApprovalState_APPROVAL_STATE_OPEN, Tool: "bash",
		Argument: "echo listing\nrm -rf build # x", Rules: []string{"bash(echo *\nrm *)", "bash(rm *)"},
	}
	want := id + `  open  session deadbeef  task deadbeef  bash "echo listing\nrm -rf build # x"  asked by "bash(echo *\nrm *)", bash(rm *)`
	if got := approvalText(p); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.Argument, p.Rules = "git push", []string{"bash=git push", "bash(git *)"}
	if got, want := approvalText(p), "bash git push  asked by the mode, bash(git *)"; !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.Tool, p.Argument, p.Rules = "write", "link/f.txt", []string{"write=link/f.txt", "write=real/f.txt"}
	if got, want := approvalText(p), `write link/f.txt  asked by the mode (for "real/f.txt")`; !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := askText(p, id, id, remoteDecisionHelp("")), `may write "link/f.txt" run? asked by the mode (for "real/f.txt"); coppice approve deadbeef, or coppice deny deadbeef`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for argument, want := range map[string]string{
		"":                     "bash",
		"git push":             "bash git push",
		`printf 'a\nb' "c"`:    `bash printf 'a\nb' "c"`,
		`"ls" -l`:              `bash "\"ls\" -l"`,
		"a\r\n\tb":             `bash "a\r\n\tb"`,
		"rm 'a  b'":            `bash "rm 'a  b'"`,
		"ls ":                  `bash "ls "`,
		"rm a\u00a0b":          `bash "rm a\u00a0b"`,
		"rm a\u200db":          `bash "rm a\u200db"`,
		"\x1b[2J\u202els \xff": `bash "\x1b[2J\u202els \xff"`,
	} {
		if got := callText(&pb.Approval{Tool: "bash", Argument: argument}); got != want {
			t.Errorf("%q: got %s, want %s", argument, got, want)
		}
	}
}

// TestACallThatIsNotShownWhole is told from one that says that of itself, and where all of it is.
func TestACallThatIsNotShownWhole(t *testing.T) {
	t.Parallel()
	const id = "00000000-0000-7000-8000-0000deadbeef"
	ends, left := excerpt.Cut("echo begins "+strings.Repeat("x", 6000)+" end", 4000)
	p := &pb.Approval{
		Id: id, SessionId: id, TaskId: id, State: pb.ApprovalState_APPROVAL_STATE_OPEN, Tool: "bash", Argument: ends, ArgumentCut: int64(left), Rules: []string{"bash"},
	}
	there := remote{Orchestrator: "a:1"}.decisionHelp(&app{}).forSession(id)
	cut := fmt.Sprintf(`xx" [%d bytes not shown] "xx`, left)
	for name, text := range map[string]string{"listed": approvalText(p), "asked": askText(p, id, id, there)} {
		if !strings.Contains(text, `bash "echo begins xx`) || !strings.Contains(text, cut) || !strings.Contains(text, `xx end"`) || strings.Contains(text, "[cut: ") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if got := askText(p, id, id, there); !strings.HasSuffix(got, "deny --orchestrator a:1 deadbeef; all of it: coppice transcript --full --orchestrator a:1 deadbeef deadbeef") {
		t.Errorf("there: %s", got)
	}
	if got := askText(p, id, id, (&runCommand{Data: "kept"}).decisionHelp(&app{}).forSession(id)); !strings.HasSuffix(got, "deny deadbeef; all of it: coppice transcript --full deadbeef deadbeef") {
		t.Errorf("kept: %s", got)
	}
	if got := askText(p, id, id, (&runCommand{}).decisionHelp(&app{}).forSession(id)); strings.Contains(got, "all of it") {
		t.Errorf("dropped: %s", got)
	}
	p.ArgumentCut = 0
	if got := askText(p, id, id, there); strings.Contains(got, "not shown]") || strings.Contains(got, "all of it") || !strings.Contains(got, `\n[cut: `) {
		t.Errorf("what only looks so: %s", got)
	}
	p.Argument, p.ArgumentCut = "ls", 7
	if got, want := callText(p), `bash "ls" [7 bytes not shown]`; got != want {
		t.Errorf("without the line: got %s, want %s", got, want)
	}
}

// TestWhatBecomesOfACallIsSaidOfIt, also where a task asks about several.
func TestWhatBecomesOfACallIsSaidOfIt(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := &plainView{out: &out, theme: newTheme(true, false), forest: newForest()}
	for _, s := range parseStory(t, "0s r open root Title\n0s r start - root\n1s r take") {
		if err := p.step(s.step); err != nil {
			t.Fatal(err)
		}
	}
	long, seq := strings.Repeat("x", inputCells), int64(90)
	tell := func(e *pb.Event) {
		seq++
		e.Seq, e.TaskId, e.Run = seq, "r", 1
		if err := p.applyEvent(e); err != nil {
			t.Fatal(err)
		}
	}
	for id, argument := range map[string]string{"a": "git push", "b": "git pull", "c": long, "d": ""} {
		tell(&pb.Event{Kind: &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{ApprovalId: id, Tool: "bash", Argument: argument}}})
	}
	out.Reset()
	decided := func(id string, state pb.ApprovalState) *pb.Event {
		return &pb.Event{Kind: &pb.Event_ApprovalDecided{ApprovalDecided: &pb.ApprovalDecided{ApprovalId: id, State: state}}}
	}
	tell(decided("b", pb.ApprovalState_APPROVAL_STATE_ALLOWED))
	tell(decided("a", pb.ApprovalState_APPROVAL_STATE_DENIED))
	tell(decided("c", pb.ApprovalState_APPROVAL_STATE_WITHDRAWN))
	tell(&pb.Event{Kind: &pb.Event_ApprovalExpired{ApprovalExpired: &pb.ApprovalExpired{ApprovalId: "d"}}})
	tell(decided("e", pb.ApprovalState_APPROVAL_STATE_ALLOWED))
	want := `bash "git pull": allowed
bash "git push": denied
bash "` + long[:inputCells-len(`bash "`)-1] + `…: withdrawn because its run ended
bash: denied because it was not decided in time
allowed
`
	if got := strings.ReplaceAll(out.String(), "● root: ", ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestAskingNamesTheRuleThatWorks: globs allow only lines that are not more than plain commands.
func TestAskingNamesTheRuleThatWorks(t *testing.T) {
	t.Parallel()
	by := noDecisionHelp("it is dropped", "")
	for _, c := range []struct {
		call approvalCall
		want string
	}{
		{&pb.Approval{Tool: "bash", Argument: "date; ls"}, "--allow RULE ("},
		{&pb.Approval{Tool: "bash", Argument: "date > d.txt; ls"}, "--allow bash, because no glob matches such a line ("},
		{&pb.Approval{Tool: "bash", Argument: "date\n[cut]\nls", ArgumentCut: 9}, "--allow RULE ("},
		{&pb.Approval{Tool: "write", Argument: "a > b"}, "--allow RULE ("},
	} {
		if got := by.decideText("id", c.call); !strings.Contains(got, "it is dropped; allow it with "+c.want) {
			t.Errorf("%s %q: %s", c.call.GetTool(), c.call.GetArgument(), got)
		}
	}
}

// TestAskingNamesWhatWorks while a session is drawn and told of.
func TestAskingNamesWhatWorks(t *testing.T) {
	t.Parallel()
	private, kept := &runCommand{}, &runCommand{Data: "kept"}
	safely := &app{typed: []flags.Typed{
		{Name: "tls", Words: []string{"--tls"}}, {Name: "tls-ca", Words: []string{"--tls-ca", "my ca"}}, {Name: "token", Words: []string{"--token", "secret"}},
	}}
	for name, c := range map[string]struct {
		by         decisionHelp
		foot, note string
		rules      []string // that ask beside the mode
	}{
		"here":  {remote{Orchestrator: defaultAddress}.decisionHelp(&app{}), "1 open approval: coppice approvals · ", "coppice approve deadbeef, or coppice deny deadbeef", nil},
		"there": {remote{Orchestrator: "a:1"}.decisionHelp(&app{}), "1 open approval: coppice approvals --orchestrator a:1 · ", "coppice approve --orchestrator a:1 deadbeef, or coppice deny --orchestrator a:1 deadbeef", nil},
		"with a key": {remote{Orchestrator: "a:1"}.decisionHelp(safely), "1 open approval: coppice approvals --orchestrator a:1 --tls --tls-ca 'my ca' · ",
			"coppice approve --orchestrator a:1 --tls --tls-ca 'my ca' deadbeef, or coppice deny --orchestrator a:1 --tls --tls-ca 'my ca' deadbeef", nil},
		"dropped": {private.decisionHelp(&app{}), "1 open approval · ",
			"the session is dropped; allow it with --allow RULE (a definition with a mode must allow it too), or keep the session with --data DIR", nil},
		"dropped, asked by rules": {private.decisionHelp(&app{}), "1 open approval · ",
			"asked by ls(.), ls; the session is dropped: keep it with --data DIR", []string{"ls(.)", "ls"}},
		"kept": {kept.decisionHelp(&app{}), "1 open approval · ", "coppice dev --data kept, and in another terminal coppice approve deadbeef, or coppice deny deadbeef", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note := `may ls "." run? ` + c.note
			var out strings.Builder
			l := &liveView{
				forest: newForest(), theme: newTheme(true, false), width: 250, height: 5, decisionHelp: c.by,
				now: func() time.Time { return zero.Add(time.Second) },
			}
			p := &plainView{out: &out, theme: l.theme, forest: newForest(), decisionHelp: c.by}
			story := parseStory(t, "0s r open root Title\n0s r start - root\n1s r take\n1s r park 0/1")
			story = append(story, moment{0, &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: &pb.Event{
				Seq: 99, TaskId: "r", Run: 1, Kind: &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{
					ApprovalId: "00000000-0000-7000-8000-0000deadbeef", Tool: "ls", Argument: ".", Rules: append([]string{"ls=."}, c.rules...),
				}},
			}}}})
			for _, s := range story {
				l.Update(stepMsg{s.step})
				if err := p.step(s.step); err != nil {
					t.Fatal(err)
				}
			}
			l.Update(tickMsg{})
			row, foot, _ := strings.Cut(l.View().Content, "\n")
			if !strings.HasSuffix(row, note) || !strings.HasPrefix(foot, c.foot) {
				t.Errorf("drawn:\n%s\n%s", row, foot)
			}
			if !strings.HasSuffix(out.String(), note+"\n") {
				t.Errorf("told: %s", &out)
			}
		})
	}
}
