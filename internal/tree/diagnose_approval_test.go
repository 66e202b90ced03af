package tree

import (
	"slices"
	"testing"
)

// TestDiagnoseFindsLostApprovals breaks the rows of a run that waits for an approval.
func TestDiagnoseFindsLostApprovals(t *testing.T) {
	t.Parallel()
	session := func() *SessionRows {
		db := newDatabase()
		agent := &Agent{Name: "a", Mode: ModeBoth}
		took := func(cmd Command) {
			t.Helper()
			if d, err := db.commit(cmd); err != nil || d[0].Err != nil {
				t.Fatalf("%T: %v, %v", cmd, d, err)
			}
		}
		took(CreateSession{ID: SessionID{1}, Agent: agent, Limits: DefaultLimits(), Message: []Block{Text{Text: "go"}}})
		token := Token{Epoch: 1, Nonce: 7}
		took(Claim{Task: db.session.Root, Token: token, Worker: "w"})
		f := From{db.session.Root, token, 1, 1}
		took(AppendAnswer{From: f, Message: Message{Blocks: []Block{ToolUse{Name: "bash"}}}})
		f.Seq++
		took(Ask{From: f, Rules: []string{"bash"}})
		f.Seq++
		took(Park{From: f})
		return db.rows()
	}
	if found := Diagnose(session()); len(found) > 0 {
		t.Fatalf("a sound session: %+v", found)
	}
	for name, damage := range map[string]func(*SessionRows){
		"an approval lost": func(r *SessionRows) { r.Approvals = nil },
		"an approval of nobody": func(r *SessionRows) {
			r.Approvals = append(r.Approvals, Approval{ID: ApprovalID{9}, State: ApprovalOpen})
		},
		"an approval of another":  func(r *SessionRows) { r.Approvals[0].Ref.Block++ },
		"not counted by the task": func(r *SessionRows) { r.Tasks[0].Asking-- },
		"counted by the session":  func(r *SessionRows) { r.Session.Asking++ },
		"approved, and not woken": func(r *SessionRows) { r.OpenCalls[0].State = CallApproved },
	} {
		rows := session()
		rows.Approvals = slices.Clone(rows.Approvals)
		damage(rows)
		if len(Diagnose(rows)) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
}
