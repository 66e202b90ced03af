package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/excerpt"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestQuestions: the oldest question stands below the tree, whole, until it is answered; a key
// that was typed before it was there answers nothing, and an answer that fails is asked for again.
func TestQuestions(t *testing.T) {
	t.Parallel()
	now := zero.Add(3 * time.Second)
	var decided []*pb.DecideApprovalRequest
	var fails error
	l := &liveView{
		forest: newForest(), theme: newTheme(true, false), now: func() time.Time { return now },
		questions: questions{decide: func(req *pb.DecideApprovalRequest) error {
			decided = append(decided, req)
			return fails
		}},
	}
	l.Update(tea.WindowSizeMsg{Width: 60, Height: 20})
	for _, s := range parseStory(t, "0s r open root Title\n0s r start - root\n1s r take\n1s a start r explore A look") {
		l.Update(stepMsg{s.step})
	}
	event := func(seq int64, task string, e *pb.Event) {
		e.Seq, e.TaskId, e.Run = seq, task, 1
		l.Update(stepMsg{&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: e}}})
	}
	asks := func(seq int64, task, id, argument string) {
		event(seq, task, &pb.Event{Kind: &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{
			ApprovalId: id, Tool: "bash", Argument: argument, Rules: []string{"bash(git *)"},
		}}})
	}
	asks(10, "r", "a2", "git push "+strings.Repeat("x", 60))
	asks(11, "a", "a1", "git pull")
	after := func(by time.Duration, key rune) {
		t.Helper()
		l.Update(tickMsg{})
		now = now.Add(by)
		if _, cmd := l.Update(tea.KeyPressMsg{Code: key, Text: string(key)}); cmd != nil {
			l.Update(cmd())
		}
		l.Update(tickMsg{})
	}
	shows := func(what string, lines ...string) {
		t.Helper()
		if got := strings.TrimRight(l.View().Content, "\n"); !strings.HasSuffix(got, "\n"+strings.Join(lines, "\n")) {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, strings.Join(lines, "\n"))
		}
	}
	first := []string{`explore "A look": may bash "git pull" run?`, `asked by bash(git *)  (1 of 2)`, keys}
	after(minShown-1, 'y')
	shows("too soon", first...)
	after(minShown, 'q')
	shows("no answer", first...)
	fails = errors.New("it is down")
	after(0, 's')
	shows("an answer that fails", first...)
	l.Update(lostMsg{errors.New("gone")})
	l.Update(tickMsg{})
	if !strings.Contains(l.View().Content, "not answered: it is down · connection lost, reconnecting · ") {
		t.Errorf("nothing is said of it:\n%s", l.View().Content)
	}
	l.Update(foundMsg{})
	event(12, "a", &pb.Event{})
	l.Update(tickMsg{})
	if !strings.Contains(l.View().Content, "not answered: it is down · 2 open approvals · ") {
		t.Errorf("nothing is said of it any more:\n%s", l.View().Content)
	}
	fails = during("deciding the approval", status.Error(codes.Unavailable, "connection error: desc = dial"))
	after(minShown, 's')
	if !strings.Contains(l.View().Content, "not answered: no connection · 2 open approvals · ") {
		t.Errorf("nobody was there:\n%s", l.View().Content)
	}
	fails = nil
	after(minShown, 's')
	second := []string{`root: may bash "git push ` + strings.Repeat("x", 35), strings.Repeat("x", 25) + `" run?`, `asked by bash(git *)`, keys}
	shows("the next one", second...)
	if strings.Contains(l.View().Content, "not answered") {
		t.Errorf("an answer that was taken:\n%s", l.View().Content)
	}
	after(0, 'y')
	event(13, "a", &pb.Event{Kind: &pb.Event_ApprovalDecided{ApprovalDecided: &pb.ApprovalDecided{ApprovalId: "a1", State: pb.ApprovalState_APPROVAL_STATE_ALLOWED}}})
	after(minShown, 'n')
	if strings.Contains(l.View().Content, keys) {
		t.Errorf("it still asks:\n%s", l.View().Content)
	}
	for i, want := range []struct {
		id       string
		decision pb.Decision
		scope    pb.ApprovalScope
	}{
		{"a1", pb.Decision_DECISION_ALLOW, pb.ApprovalScope_APPROVAL_SCOPE_SESSION},
		{"a1", pb.Decision_DECISION_ALLOW, pb.ApprovalScope_APPROVAL_SCOPE_SESSION},
		{"a1", pb.Decision_DECISION_ALLOW, pb.ApprovalScope_APPROVAL_SCOPE_SESSION},
		{"a2", pb.Decision_DECISION_DENY, pb.ApprovalScope_APPROVAL_SCOPE_UNSPECIFIED},
	} {
		if i >= len(decided) || decided[i].GetApprovalId() != want.id || decided[i].GetDecision() != want.decision || decided[i].GetScope() != want.scope {
			t.Fatalf("decision %d of %v, want %v", i, decided, want)
		}
	}
	// Of a call that can't be shown whole nobody is asked, and it holds up no other.
	asks(14, "r", "a3", "git "+strings.Repeat("x", 1200))
	after(minShown, 'y')
	after(minShown, 'y')
	shows("no room", "an open approval does not fit here: make the terminal larger")
	l.questions.help.listCommand = "coppice approvals --orchestrator example.com:7070"
	after(minShown, 'y')
	shows("no room, at an orchestrator", "an open approval does not fit here: coppice approvals --orch", "estrator example.com:7070")
	if len(decided) != 4 {
		t.Errorf("decided on %v", decided[4:])
	}
	asks(15, "a", "a4", "git fetch")
	after(minShown, 'n')
	shows("no room any more", "an open approval does not fit here: coppice approvals --orch", "estrator example.com:7070")
	if len(decided) != 5 || decided[4].GetApprovalId() != "a4" {
		t.Fatalf("decided on %v, want a4", decided[4:])
	}
	l.Update(tea.WindowSizeMsg{Width: 60, Height: 50})
	l.Update(tickMsg{})
	shows("room", `asked by bash(git *)`, keys)
}

// TestAnAnswerThatComesTooLate is not told of once it is known what has become of the question,
// whichever is heard first.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	t.Parallel()
	for name, eventFirst := range map[string]bool{"the decision is heard of first": true, "the refusal is heard of first": false} {
		now := zero.Add(3 * time.Second)
		refused := during("deciding the approval", status.Error(codes.FailedPrecondition, "it was denied"))
		l := &liveView{
			forest: newForest(), theme: newTheme(true, false), now: func() time.Time { return now },
			questions: questions{decide: func(*pb.DecideApprovalRequest) error { return refused }},
		}
		l.Update(tea.WindowSizeMsg{Width: 80, Height: 20})
		for _, s := range parseStory(t, "0s r open root Title\n0s r start - root\n1s r take") {
			l.Update(stepMsg{s.step})
		}
		event := func(seq int64, e *pb.Event) {
			e.Seq, e.TaskId, e.Run = seq, "r", 1
			l.Update(stepMsg{&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: e}}})
		}
		event(10, &pb.Event{Kind: &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{ApprovalId: "a1", Tool: "bash", Argument: "git push"}}})
		l.Update(tickMsg{})
		now = now.Add(minShown)
		_, cmd := l.Update(tea.KeyPressMsg{Code: 'y', Text: "y"})
		if cmd == nil {
			t.Fatalf("%s: nothing is answered:\n%s", name, l.View().Content)
		}
		decided := func() {
			event(11, &pb.Event{Kind: &pb.Event_ApprovalDecided{ApprovalDecided: &pb.ApprovalDecided{ApprovalId: "a1", State: pb.ApprovalState_APPROVAL_STATE_DENIED}}})
		}
		if eventFirst {
			decided()
		}
		l.Update(cmd())
		if !eventFirst {
			decided()
		}
		l.Update(tickMsg{})
		if strings.Contains(l.View().Content, "not answered") {
			t.Errorf("%s:\n%s", name, l.View().Content)
		}
	}
}

// TestAQuestionAboutWhatIsNotShownWhole is not answered as one is of which all is read: it takes
// another key to allow it, and that only once.
func TestAQuestionAboutWhatIsNotShownWhole(t *testing.T) {
	t.Parallel()
	now := zero.Add(3 * time.Second)
	var decided []*pb.DecideApprovalRequest
	l := &liveView{
		forest: newForest(), theme: newTheme(true, false), now: func() time.Time { return now },
		questions: questions{help: remoteDecisionHelp("").forSession("5e5510"), decide: func(req *pb.DecideApprovalRequest) error {
			decided = append(decided, req)
			return nil
		}},
	}
	l.questions.help.decideText = nil
	l.Update(tea.WindowSizeMsg{Width: 120, Height: 60})
	for _, s := range parseStory(t, "0s r open root Title\n0s r start - root\n1s r take") {
		l.Update(stepMsg{s.step})
	}
	ends, left := excerpt.Cut("git "+strings.Repeat("x", 5000), 4000)
	for i, id := range []string{"a1", "a2"} {
		l.Update(stepMsg{&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: &pb.Event{
			Seq: int64(10 + i), TaskId: "r", Run: 1, Kind: &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{
				ApprovalId: id, Tool: "bash", Argument: ends, ArgumentCut: int64(left), Rules: []string{"bash"},
			}},
		}}}})
	}
	for _, key := range "ysu n" {
		l.Update(tickMsg{})
		screen := strings.ReplaceAll(l.View().Content, "\n", "")
		if !strings.Contains(screen, fmt.Sprintf(`xxx" [%d bytes not shown] "xxx`, left)) || !strings.Contains(screen, "run? all of it: coppice transcript --full 5e5510 r") ||
			!strings.Contains(screen, keysUnseen) || strings.Contains(screen, keys) {
			t.Errorf("before %q:\n%s", key, l.View().Content)
		}
		now = now.Add(minShown)
		if _, cmd := l.Update(tea.KeyPressMsg{Code: key, Text: string(key)}); cmd != nil {
			l.Update(cmd())
		}
	}
	if len(decided) != 2 || decided[0].GetApprovalId() != "a1" || decided[0].GetDecision() != pb.Decision_DECISION_ALLOW ||
		decided[0].GetScope() != pb.ApprovalScope_APPROVAL_SCOPE_UNSPECIFIED || decided[1].GetDecision() != pb.Decision_DECISION_DENY {
		t.Errorf("decided on %v", decided)
	}
}
