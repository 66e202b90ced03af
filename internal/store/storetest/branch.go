package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// ordinals are the ordinals of messages.
func ordinals(messages []tree.Message) []int {
	var all []int
	for _, m := range messages {
		all = append(all, m.Ordinal)
	}
	return all
}

// branches: what a conversation continues from is stored, and reads the same however the base
// continues. So do forks of forks, and the current branch.
func branches(t *testing.T, d Dialect) {
	f := newFamily(t, d)
	answer := f.transcript[3]
	branch := tree.CreateBranch{At: answer, Agent: general, Description: "other way", Message: say("or so"), Select: true}
	key := store.Key{Key: "k", Hash: [32]byte{1}}
	made := must[tree.Answer](t)(f.UpdateOnce(t.Context(), f.session, key, branch))
	eq(t, "the repeat's answer", must[tree.Answer](t)(f.UpdateOnce(t.Context(), f.session, key, branch)), made)
	b := made.(tree.Branched).Task
	w := f.claim(f.session, b)
	call := w.calls("task", "task")
	w.b.must(f.session, tree.SpawnCalls{From: w.from(), Children: []tree.CallChild{{Block: 2, Child: forked("deep")}}})
	f.must(f.session, tree.Send{Task: f.root, Message: say("the base goes on")})
	var deep tree.Task
	for _, task := range must[[]tree.Task](t)(f.Tree(t.Context(), f.session)) {
		if task.Parent == b {
			deep = task
		}
	}
	f.restart()
	eq(t, "the current branch", must[*tree.Session](t)(f.Session(t.Context(), "acme", f.session)).Current, b)
	stored := must[*tree.Task](t)(f.Task(t.Context(), f.session, b))
	eq(t, "the base", stored.Base, tree.Base{Kind: tree.BaseBranch, Task: f.root, Message: 4})
	eq(t, "the fork's base", deep.Base, tree.Base{Kind: tree.BaseCall, Task: b, Message: call, Block: 2})
	inherited := must[[]tree.Message](t)(f.Inherited(t.Context(), f.session, b))
	if !reflect.DeepEqual(inherited, f.transcript) {
		t.Errorf("the branch inherits\n%+v, not\n%+v", inherited, f.transcript)
	}
	inherited = must[[]tree.Message](t)(f.Inherited(t.Context(), f.session, deep.ID))
	if got, want := ordinals(inherited), []int{1, 2, 3, 4, 5, 6, 7}; !reflect.DeepEqual(got, want) || len(inherited[5].Blocks) != 2 {
		t.Errorf("the fork inherits %v: %+v", got, inherited)
	}
	own := must[[]tree.Message](t)(f.Transcript(t.Context(), f.session, deep.ID, 0, 0))
	if got := ordinals(own); !reflect.DeepEqual(got, []int{8}) {
		t.Errorf("the fork's own messages are %v", got)
	}
	m := must[*tree.Message](t)(f.MessageByID(t.Context(), f.session, f.root, f.transcript[2].ID))
	if !reflect.DeepEqual(*m, f.transcript[2]) {
		t.Errorf("message 3 is %+v, not %+v", m, f.transcript[2])
	}
	for _, of := range []tree.TaskID{b, f.well} {
		if _, err := f.MessageByID(t.Context(), f.session, of, answer.ID); !errors.Is(err, tree.ErrNoMessage) {
			t.Errorf("another task's message: %v", err)
		}
	}
}

func forked(prompt string) tree.Child {
	c := child(prompt)
	c.Fork = true
	return c
}

// summaries: the model sees the last summary instead of the messages that it replaces, and the
// transcript keeps all messages.
func summaries(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "long")
	w := b.claim(id, root)
	w.calls("read")
	w.closes(1, "the file", false)
	said := tree.Message{Blocks: say("in short"), Model: "m-1", Usage: tree.Usage{Input: 9}, Stop: tree.StopEndTurn}
	stored := b.must(id, tree.Compact{From: w.from(), UpTo: 1, Summary: said}).(tree.Stored)
	eq(t, "the summary's ordinal", stored.Ordinal, 4)
	w.answers("done")
	b.must(id, tree.ChangeSession{Budget: &tree.Budget{ModelCalls: 9}})
	b.restart()
	s := must[*tree.Session](t)(b.Session(t.Context(), "acme", id))
	eq(t, "its model calls, and how many it may make", [2]int64{s.ModelCalls, s.Budget.ModelCalls}, [2]int64{3, 9})
	eq(t, "the last summary", must[*tree.Task](t)(b.Task(t.Context(), id, root)).Compacted, 4)
	seen := must[*store.Conversation](t)(b.Conversation(t.Context(), "", id, root))
	if got, want := ordinals(seen.Messages), []int{4, 2, 3, 5}; !reflect.DeepEqual(got, want) {
		t.Errorf("the model sees %v, want %v", got, want)
	}
	all := must[[]tree.Message](t)(b.Transcript(t.Context(), id, root, 0, 0))
	if len(all) != 5 || all[3].UpTo != 1 || all[3].Usage != said.Usage || !reflect.DeepEqual(all[3].Blocks, said.Blocks) {
		t.Errorf("the transcript is %+v", all)
	}
}

// beginnings: a session begins with imported messages, unchanged.
func beginnings(t *testing.T, d Dialect) {
	b := setup(t, d)
	cmd := create(1)
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	cmd.History = []tree.Message{
		{ID: tree.MessageID{1}, Role: tree.RoleUser, CreatedAt: at, Blocks: []tree.Block{
			tree.Text{Text: "look"}, tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Name: "a", Data: []byte{0, 1}},
		}},
		{ID: tree.MessageID{2}, Role: tree.RoleAssistant, CreatedAt: at, Model: "m", Usage: tree.Usage{Input: 3}, Blocks: []tree.Block{
			tree.ToolUse{ProviderID: "x", Name: "ls", Input: []byte("{}")}, tree.ToolUse{ProviderID: "x", Name: "read", Input: []byte("{}")},
		}},
		{ID: tree.MessageID{3}, Role: tree.RoleTool, CreatedAt: at, Blocks: []tree.Block{
			tree.ToolResult{Block: 0, ProviderID: "x", Text: "files"}, tree.ToolResult{Block: 1, ProviderID: "x", Text: "no", IsError: true},
		}},
	}
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	read := must[[]tree.Message](t)(b.Transcript(t.Context(), cmd.ID, root, 0, 0))
	if len(read) != len(cmd.History) {
		t.Fatalf("the session begins with %+v", read)
	}
	for i, m := range read {
		want := cmd.History[i]
		want.Task, want.Ordinal = root, i+1
		if i > 0 {
			want.Parent = cmd.History[i-1].ID
		}
		if !reflect.DeepEqual(m, want) {
			t.Errorf("message %d is\n%+v, not\n%+v", i+1, m, want)
		}
	}
	eq(t, "the usage", must[*tree.Session](t)(b.Session(t.Context(), "acme", cmd.ID)).Usage, tree.Usage{})
	b.must(cmd.ID, tree.Send{Message: say("go on")})
	b.claim(cmd.ID, root).answers("gone on")
}
