package storetest

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

var (
	general = &tree.Agent{Name: "general", Version: "1", Mode: tree.ModeBoth, Model: "m", MaxIterations: 100}
	helper  = &tree.Agent{Name: "helper", Version: "1", Mode: tree.ModeSubagent, Model: "m", MaxIterations: 10, OnComplete: "https://x.example/ended", Worktree: true}
)

// session names a session by a number. These ids never equal sequential ids.
func session(n int) tree.SessionID {
	id := tree.SessionID(number(uint64(n)))
	id[0] = 0xff
	return id
}

func create(n int) tree.CreateSession {
	return tree.CreateSession{
		ID: session(n), Tenant: "acme", Agent: general, Limits: tree.DefaultLimits(),
		Metadata: map[string]string{"n": "1"}, Workspace: "shared",
	}
}

func say(text string) []tree.Block { return []tree.Block{tree.Text{Text: text}} }

func child(prompt string) tree.Child {
	return tree.Child{Agent: helper, AgentName: helper.Name, Description: "look", Prompt: prompt}
}

// create opens a session and gives its root.
func (b *bundle) create(n int, first string) tree.TaskID {
	b.t.Helper()
	cmd := create(n)
	if first != "" {
		cmd.Message = say(first)
	}
	return b.must(cmd.ID, cmd).(tree.Created).Root
}

// worker is an attempt from the side of its worker.
type worker struct {
	b       *bundle
	session tree.SessionID
	task    tree.TaskID
	token   tree.Token
	seq     int64
}

// claim claims a pending run.
func (b *bundle) claim(id tree.SessionID, task tree.TaskID) *worker {
	b.t.Helper()
	t, err := b.Task(b.t.Context(), id, task)
	if err != nil {
		b.t.Fatal(err)
	}
	w := &worker{b: b, session: id, task: task, token: tree.Token{Epoch: t.Epoch, Nonce: 1<<63 + 7}}
	b.claimed(id, tree.Claim{Task: task, Token: w.token, Worker: "w"})
	return w
}

// claimed carries a claim out, and reports whether its conversation was cached; if so, it equals
// the one that is read.
func (b *bundle) claimed(id tree.SessionID, cmd tree.Claim) (atHand bool) {
	b.t.Helper()
	p := must[*store.Pending](b.t)(b.Submit(b.t.Context(), id, cmd))
	tenant := must[tree.Answer](b.t)(p.Wait(b.t.Context())).(*tree.Claimed).Tenant
	known := must[*store.Conversation](b.t)(b.ConversationFromCache(b.t.Context(), p.CachedConversation()))
	if known == nil {
		return false
	}
	stored := must[[]tree.Message](b.t)(b.Transcript(b.t.Context(), id, cmd.Task, 0, 0)) // past all that is held
	if !reflect.DeepEqual(known.Messages, stored) {
		b.t.Errorf("at hand is\n%+v, stored\n%+v", known.Messages, stored)
	}
	read := must[*store.Conversation](b.t)(b.Conversation(b.t.Context(), tenant, id, cmd.Task))
	if !reflect.DeepEqual(known.Messages, read.Messages) || len(known.Open)+len(read.Open) > 0 || !slices.Equal(known.Agents, read.Agents) {
		b.t.Errorf("at hand is\n%+v, not\n%+v", known, read)
	}
	return true
}

func (w *worker) from() tree.From {
	w.seq++
	return tree.From{Task: w.task, Token: w.token, Attach: 1, Seq: w.seq}
}

// calls says that the model has called tools; their provider ids are all equal.
func (w *worker) calls(tools ...string) int {
	w.b.t.Helper()
	m := tree.Message{Blocks: say("let me see"), Model: "m-1", Stop: tree.StopToolUse, Usage: tree.Usage{Input: 7, Output: 3}}
	for _, tool := range tools {
		m.Blocks = append(m.Blocks, tree.ToolUse{ProviderID: "call_0", Name: tool, Input: json.RawMessage(`{"a":1}`)})
	}
	return w.b.must(w.session, tree.AppendAnswer{From: w.from(), Message: m}).(tree.Stored).Ordinal
}

func (w *worker) closes(block int, text string, isError bool) {
	w.b.t.Helper()
	w.b.must(w.session, tree.CloseCall{From: w.from(), Block: block, Text: text, IsError: isError})
}

// spawns starts a child for a call and gives it.
func (w *worker) spawns(message, block int, background bool) tree.TaskID {
	w.b.t.Helper()
	w.b.must(w.session, tree.SpawnCalls{From: w.from(), Children: []tree.CallChild{
		{Block: block, Child: child("do it"), Background: background},
	}})
	tasks := must[[]tree.Task](w.b.t)(w.b.Tree(w.b.t.Context(), w.session))
	for _, t := range tasks {
		if t.Parent == w.task && t.Call == (tree.CallRef{Message: message, Block: block}) {
			return t.ID
		}
	}
	w.b.t.Fatal("there is no child")
	return tree.TaskID{}
}

func (w *worker) parks() {
	w.b.t.Helper()
	w.b.must(w.session, tree.Park{From: w.from()})
}

func (w *worker) answers(text string) {
	w.b.t.Helper()
	w.b.must(w.session, tree.End{From: w.from(), Answer: &tree.Message{
		Blocks: say(text), Model: "m-1", Stop: tree.StopEndTurn, Usage: tree.Usage{Input: 5, Output: 2},
	}})
}

func (w *worker) fails(reason tree.Reason, detail string) {
	w.b.t.Helper()
	w.b.must(w.session, tree.End{From: w.from(), Reason: reason, Detail: detail})
}

// openCalls reads the open calls of a task.
func (b *bundle) openCalls(id tree.SessionID, task tree.TaskID) []tree.Call {
	b.t.Helper()
	seen, err := b.Conversation(b.t.Context(), "", id, task)
	if err != nil {
		b.t.Fatal(err)
	}
	return seen.Open
}

// events reads the whole log of a session and checks that it has no gap.
func (b *bundle) events(id tree.SessionID) int64 {
	b.t.Helper()
	var last int64
	for {
		page, err := b.Events(b.t.Context(), id, last, 7)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range page {
			last++
			eq(b.t, "the number of the next event", e.GetSeq(), last)
		}
		if len(page) < 7 {
			return last
		}
	}
}
