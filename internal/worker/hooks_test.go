package worker

import (
	"testing"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// TestThePromptOfAFork has a fork whose first run has the number of its parent's.
func TestThePromptOfAFork(t *testing.T) {
	t.Parallel()
	said := func(ordinal int, role tree.Role, text string) tree.Message {
		return tree.Message{
			ID: tree.MessageID(uuid.New()), Ordinal: ordinal, Run: 1, Role: role, Blocks: []tree.Block{tree.Text{Text: text}},
		}
	}
	task := tree.Task{ID: tree.TaskID(uuid.New()), Base: tree.Base{Kind: tree.BaseFork, Task: tree.TaskID(uuid.New()), Message: 2}}
	task.Run = 1
	messages := transcript.Conversation([]transcript.Link{
		{Task: task.ID, Base: task.Base, Messages: []tree.Message{said(4, tree.RoleUser, "its prompt")}},
		{Task: task.Base.Task, Messages: []tree.Message{said(1, tree.RoleUser, "its parent's prompt"), said(2, tree.RoleAssistant, "yes")}},
	})
	if got := promptOf(messages, wire.Task(&task)); got != "its prompt" {
		t.Errorf("its hooks read the prompt %q", got)
	}
}
