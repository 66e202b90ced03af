package tree

import (
	"strings"
	"testing"
)

// TestWhoApprovesSeesHowACommandBegins: of a long argument both ends are shown.
func TestWhoApprovesSeesHowACommandBegins(t *testing.T) {
	t.Parallel()
	db := newDatabase()
	token := Token{Epoch: 1, Nonce: 7}
	long := "rm -rf /; echo " + strings.Repeat("x", 2*maxArgument) + " done"
	f := From{Token: token, Attach: 1, Seq: 1}
	for _, command := range []func() Command{
		func() Command {
			return CreateSession{ID: SessionID{1}, Agent: &Agent{Name: "a", Mode: ModeBoth}, Limits: DefaultLimits(), Message: []Block{Text{Text: "go"}}}
		},
		func() Command { return Claim{Task: db.session.Root, Token: token, Worker: "w"} },
		func() Command {
			f.Task = db.session.Root
			return AppendAnswer{From: f, Message: Message{Blocks: []Block{ToolUse{Name: "bash"}}}}
		},
		func() Command {
			f.Seq++
			return Ask{From: f, Argument: long, Rules: []string{"bash"}}
		},
	} {
		if d, err := db.commit(command()); err != nil || d[0].Err != nil {
			t.Fatal(d, err)
		}
	}
	approvals := db.rows().Approvals
	if len(approvals) != 1 {
		t.Fatalf("%d approvals", len(approvals))
	}
	got := approvals[0].Argument
	_, line, _ := strings.Cut(got, "\n[cut: ")
	line, _, _ = strings.Cut(line, "\n")
	line = "\n[cut: " + line + "\n"
	if !strings.HasPrefix(got, "rm -rf /; ") || !strings.HasSuffix(got, " done") || !strings.Contains(got, "\n[cut: ") || len(got) > maxArgument || approvals[0].Cut != len(long)-len(got)+len(line) {
		t.Errorf("%d bytes: %.40q … %q", len(got), got, got[len(got)-20:])
	}
}
