package orchestrator_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestBranchOfACommand: a command has no branches, although its command line is a message.
func TestBranchOfACommand(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	ctx := t.Context()
	session, root, err := svc.CreateSession(ctx, "acme", orchestrator.SessionSpec{Text: "go"}, orchestrator.Idempotency{})
	if err != nil {
		t.Fatal(err)
	}
	worker := tree.From{Task: root.ID, Token: tree.Token{Epoch: root.Epoch, Nonce: 1}, Attach: 1}
	from := func() tree.From {
		worker.Seq++
		return worker
	}
	bash := tree.ToolUse{ProviderID: "call", Name: "bash", Input: json.RawMessage(`{}`)}
	var stored tree.Answer
	for _, cmd := range []tree.Command{
		tree.Claim{Task: root.ID, Token: worker.Token, Worker: "w"},
		tree.AppendAnswer{From: from(), Message: tree.Message{Blocks: []tree.Block{bash}, Model: "m", Stop: tree.StopToolUse}},
		tree.StartCall{From: from()},
		tree.SpawnCalls{From: from(), Children: []tree.CallChild{{Background: true, Shell: &tree.Shell{Line: "make", Nonce: 2, File: "out"}}}},
	} {
		if stored, err = svc.Store.Update(ctx, session.ID, cmd); err != nil {
			t.Fatal(err)
		}
	}
	command := stored.(tree.Stored).Launched[0].Task
	said, err := svc.Store.Transcript(ctx, session.ID, command, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = svc.CreateBranch(ctx, "acme", session.ID, orchestrator.BranchSpec{Task: command, Message: said[0].ID, Text: "more"}, orchestrator.Idempotency{})
	if !errors.Is(err, tree.ErrNotAnAgent) {
		t.Errorf("it was refused with %v", err)
	}
}
