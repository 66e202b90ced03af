package tree

import (
	"strings"
	"testing"
)

func TestCheckWorkspace(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]Code{
		"": 0, "a": 0, "Checkout-1.2_x": 0, strings.Repeat("x", 100): 0, "018f0000": 0,
		strings.Repeat("x", 101): CodeExhausted,
		"..":                     CodeInvalid, ".": CodeInvalid, ".git": CodeInvalid, "-x": CodeInvalid, "a/b": CodeInvalid, "/a": CodeInvalid, "a\\b": CodeInvalid, "../a": CodeInvalid,
		"a b": CodeInvalid, "a\x00": CodeInvalid, "caf\u00e9": CodeInvalid, "\xff": CodeInvalid, "~": CodeInvalid, "a\n": CodeInvalid,
		"00000000-0000-0000-0000-000000000000": CodeInvalid,
		"018f0000-0000-7000-8000-000000000000": CodeInvalid, "018F0000-0000-7000-8000-00000000000A": CodeInvalid,
	} {
		err := CheckWorkspace(name)
		if (err == nil) != (code == 0) || err != nil && CodeOf(err) != code {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestWorktrees: a sub-agent whose agent wants a worktree has one below its parent's
// place, one whose agent does not works where its parent does, and so does a branch.
func TestWorktrees(t *testing.T) {
	t.Parallel()
	db := newDatabase()
	must := func(cmd Command) Answer {
		t.Helper()
		all, err := db.commit(cmd)
		if err != nil || all[0].Err != nil {
			t.Fatalf("%T: %v, %v", cmd, err, all)
		}
		return all[0].Answer
	}
	alone := &Agent{Name: "smith", Version: "1", Mode: ModeBoth, Worktree: true}
	plain := &Agent{Name: "plain", Version: "1", Mode: ModeBoth}
	root := must(CreateSession{ID: SessionID{1}, Agent: alone, Message: texts([]string{"Go."}), Limits: DefaultLimits(), Workspace: "w"}).(Created).Root
	spawn := func(parent TaskID, agent *Agent) TaskID {
		return must(SpawnTask{Parent: parent, Child: Child{Agent: agent, AgentName: agent.Name, Prompt: "Look."}}).(Spawned).Task
	}
	outer := spawn(root, alone)
	beside, within := spawn(root, plain), spawn(outer, plain)
	inner := spawn(within, alone)
	first := db.messages[outer][0]
	branch := must(CreateBranch{Task: outer, At: first, Agent: alone}).(Branched).Task
	for id, want := range map[TaskID]string{
		root: "", beside: "", outer: outer.String(), within: outer.String(), inner: outer.String() + " " + inner.String(), branch: outer.String(),
	} {
		if got := db.tasks[id].Worktrees; got != want {
			t.Errorf("%s works in %q, want %q", id, got, want)
		}
	}
	claim := Claim{Task: outer, Token: Token{db.tasks[outer].Epoch, 1}, Worker: "w"}
	if got := must(claim).(*Claimed); got.Workspace != "w" || got.Task.Worktrees != outer.String() {
		t.Errorf("claimed in %q and %q", got.Workspace, got.Task.Worktrees)
	}
	if all, err := db.commit(CreateSession{ID: SessionID{1}, Agent: alone, Limits: DefaultLimits(), Workspace: "../x"}); err != nil || all[0].Err == nil {
		t.Errorf("a session in ../x: %v, %v", all, err)
	}
}
