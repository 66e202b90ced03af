package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// family is a root that has spawned two children and called a tool, and has all their results.
type family struct {
	*bundle
	session    tree.SessionID
	root       tree.TaskID
	well, ill  tree.TaskID
	childRuns  [2]tree.Outcome
	calledAt   int
	transcript []tree.Message
}

func newFamily(t *testing.T, d Dialect) *family {
	f := &family{bundle: setup(t, d), session: session(1)}
	f.root = f.create(1, "do three things")
	w := f.claim(f.session, f.root)
	f.calledAt = w.calls("task", "read", "task")
	f.well = w.spawns(f.calledAt, 1, false)
	w.closes(2, "the file", true)
	f.ill = w.spawns(f.calledAt, 3, false)
	w.parks()
	f.clock.advance(time.Second)
	f.claim(f.session, f.well).answers("it went well")
	f.claim(f.session, f.ill).fails(tree.ReasonProviderError, "it is down")
	f.claim(f.session, f.root).answers("done")
	for i, task := range []tree.TaskID{f.well, f.ill} {
		f.childRuns[i] = must[tree.Outcome](t)(f.Outcome(f.t.Context(), f.session, tree.ChildRun{Task: task, Run: 1}))
	}
	f.transcript = must[[]tree.Message](t)(f.Transcript(f.t.Context(), f.session, f.root, 0, 0))
	return f
}

// transcript: a tool message is made of the calls before it, in block order, with the provider's
// ids, and with outcomes that are stored once.
func transcript(t *testing.T, d Dialect) {
	f := newFamily(t, d)
	want := [][]tree.Block{
		say("do three things"),
		{
			tree.Text{Text: "let me see"},
			tree.ToolUse{ProviderID: "call_0", Name: "task", Input: json.RawMessage(`{"a":1}`)},
			tree.ToolUse{ProviderID: "call_0", Name: "read", Input: json.RawMessage(`{"a":1}`)},
			tree.ToolUse{ProviderID: "call_0", Name: "task", Input: json.RawMessage(`{"a":1}`)},
		},
		{
			tree.ToolResult{Block: 1, ProviderID: "call_0", Text: f.childRuns[0].Text()},
			tree.ToolResult{Block: 2, ProviderID: "call_0", Text: "the file", IsError: true},
			tree.ToolResult{Block: 3, ProviderID: "call_0", Text: f.childRuns[1].Text(), IsError: true},
		},
		say("done"),
	}
	roles := []tree.Role{tree.RoleUser, tree.RoleAssistant, tree.RoleTool, tree.RoleAssistant}
	if len(f.transcript) != len(want) {
		t.Fatalf("the transcript is %+v", f.transcript)
	}
	var parent tree.MessageID
	for i, m := range f.transcript {
		if !reflect.DeepEqual(m.Blocks, want[i]) {
			t.Errorf("message %d has\n%+v, not\n%+v", i+1, m.Blocks, want[i])
		}
		eq(t, "the ordinal", m.Ordinal, i+1)
		eq(t, "the role", m.Role, roles[i])
		eq(t, "the task", m.Task, f.root)
		eq(t, "the parent", m.Parent, parent)
		eq(t, "the run", m.Run, 1)
		parent = m.ID
	}
	asked := f.transcript[1]
	eq(t, "the model", asked.Model, "m-1")
	eq(t, "the usage", asked.Usage, tree.Usage{Input: 7, Output: 3})
	eq(t, "the stop reason", asked.Stop, tree.StopToolUse)
	seen, err := f.Conversation(f.t.Context(), "", f.session, f.root)
	if err != nil || len(seen.Open) != 0 || !reflect.DeepEqual(seen.Messages, f.transcript) {
		t.Errorf("the conversation is %+v, %v", seen, err)
	}
}

// claimAtHand: the worker of a child that was spawned here gets the child's prompt without a read,
// and the prompt equals the stored one.
func claimAtHand(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "ask two")
	if err := b.PutAgent(t.Context(), "acme", store.AgentVersion{Name: "mine", Version: "1"}, []byte("it")); err != nil {
		t.Fatal(err)
	}
	w := b.claim(id, root)
	at := w.calls("task", "task")
	first, second := w.spawns(at, 1, false), w.spawns(at, 2, false)
	claim := func(task tree.TaskID, epoch int64) tree.Claim {
		return tree.Claim{Task: task, Token: tree.Token{Epoch: epoch, Nonce: 9}, Worker: "w"}
	}
	eq(t, "at hand for a new child", b.claimed(id, claim(first, 1)), true)
	b.must(id, tree.Redeliver{Task: first, Epoch: 1, Attach: 1})
	eq(t, "at hand for the next worker", b.claimed(id, claim(first, 2)), false)
	b.restart()
	eq(t, "at hand after a restart", b.claimed(id, claim(second, 1)), false)
}

// wakingAtHand: once a parent's transcript was read, everything that is added to it is cached when
// the parent wakes again, whatever it refers to.
func wakingAtHand(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "ask somebody")
	w := &worker{b: b, session: id, task: root, token: tree.Token{Epoch: 1, Nonce: 1}}
	b.must(id, tree.Claim{Task: root, Token: w.token, Worker: "w"}) // nothing of it is read yet
	wakes := func(what string, want bool) {
		t.Helper()
		now := must[*tree.Task](t)(b.Task(t.Context(), id, root))
		w = &worker{b: b, session: id, task: root, token: tree.Token{Epoch: now.Epoch, Nonce: 11}}
		eq(t, "at hand "+what, b.claimed(id, tree.Claim{Task: root, Token: w.token, Worker: "w"}), want)
		must[*store.Conversation](t)(b.Conversation(t.Context(), "acme", id, root)) // as one reads it that is not at hand
	}
	asks := func(ends func(child *worker)) {
		t.Helper()
		at := w.calls("read", "task")
		w.closes(1, "a file", false)
		child := w.spawns(at, 2, false)
		w.parks()
		ends(b.claim(id, child))
	}
	asks(func(c *worker) { c.answers("found") })
	wakes("after an answer", true)
	asks(func(c *worker) { c.fails(tree.ReasonProviderError, "nobody answers") })
	wakes("after a failure", true)
	at := w.calls("task")
	background := w.spawns(at, 1, true)
	at = w.calls("task", "read")
	child := w.spawns(at, 1, false)
	w.closes(2, "it can't be read", true)
	w.parks()
	b.claim(id, background).answers("beside it")
	b.must(id, tree.Send{Message: say("how is it?")})
	b.claim(id, child).answers("at last")
	wakes("with news, and what a client has said", true)
	asks(func(c *worker) { b.restart(); c.answers("found after a restart") })
	wakes("after a restart", false)
	asks(func(c *worker) { c.answers("found again") })
	wakes("and then", true)
	b.must(id, tree.Redeliver{Task: root, Epoch: w.token.Epoch, Attach: 1})
	wakes("for another worker, of which nothing is new", false)
	w.calls("read", "read")
	w.closes(1, "closed before it was read", false)
	b.must(id, tree.Redeliver{Task: root, Epoch: w.token.Epoch, Attach: 1})
	wakes("with a call that is open", false)
	w.closes(2, "closed after it was read", false)
	b.must(id, tree.Redeliver{Task: root, Epoch: w.token.Epoch, Attach: 1})
	wakes("with results of which some were there before", false)
}

// transcriptPages: any part of a transcript equals the same part of the whole.
func transcriptPages(t *testing.T, d Dialect) {
	f := newFamily(t, d)
	for after := range len(f.transcript) + 2 {
		for limit := range 4 {
			page := must[[]tree.Message](t)(f.Transcript(f.t.Context(), f.session, f.root, after, limit))
			want := f.transcript[min(after, len(f.transcript)):]
			if limit > 0 {
				want = want[:min(limit, len(want))]
			}
			if len(page) != len(want) || len(want) > 0 && !reflect.DeepEqual(page, want) {
				t.Errorf("up to %d after %d are\n%+v, not\n%+v", limit, after, page, want)
			}
		}
	}
	if other := must[[]tree.Message](t)(f.Transcript(f.t.Context(), session(2), f.root, 0, 0)); len(other) > 0 {
		t.Errorf("another session shows %+v", other)
	}
}

// news: the end of a background child reaches its parent as a message that is made of the outcome.
func news(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "start something")
	w := b.claim(id, root)
	at := w.calls("task")
	work := w.spawns(at, 1, true)
	w.answers("it has started")
	b.must(id, tree.Send{Message: say("how is it?")})
	b.claim(id, work).answers("found it")
	w = b.claim(id, root) // which takes the news in
	all := must[[]tree.Message](t)(b.Transcript(b.t.Context(), id, root, 0, 0))
	last := all[len(all)-1]
	run := tree.ChildRun{Task: work, Run: 1}
	told := must[tree.Outcome](t)(b.Outcome(b.t.Context(), id, run))
	eq(t, "what is told of", last.News, run)
	eq(t, "who tells it", last.Role, tree.RoleUser)
	child := must[*tree.Task](t)(b.Task(t.Context(), id, work))
	if !reflect.DeepEqual(last.Blocks, say(told.News(child))) {
		t.Errorf("the news is %+v, not %s", last.Blocks, told.News(child))
	}
	w.answers("it has been found")
}

// outcome: how a run has ended, with its answer; a run under way has none.
func outcome(t *testing.T, d Dialect) {
	f := newFamily(t, d)
	eq(t, "the answer", f.childRuns[0].Answer, "it went well")
	eq(t, "the state", f.childRuns[0].Run.State, tree.StateCompleted)
	eq(t, "the usage", f.childRuns[0].Run.Usage, tree.Usage{Input: 5, Output: 2})
	eq(t, "the failure's answer", f.childRuns[1].Answer, "")
	eq(t, "the reason", f.childRuns[1].Run.Reason, tree.ReasonProviderError)
	eq(t, "the detail", f.childRuns[1].Run.Detail, "it is down")
	eq(t, "the failure's last words", f.childRuns[1].Words, "")
	f.must(f.session, tree.Send{Message: say("more"), Task: f.ill})
	w := f.claim(f.session, f.ill)
	w.calls("read")
	w.closes(1, "the file", false)
	w.fails(tree.ReasonMaxIterations, "that was all")
	stopped := must[tree.Outcome](t)(f.Outcome(f.t.Context(), f.session, tree.ChildRun{Task: f.ill, Run: 2}))
	eq(t, "the stopped run's answer", stopped.Answer, "")
	eq(t, "its last words", stopped.Words, "let me see")
	_, read, err := f.TaskAndOutput(f.t.Context(), "acme", f.session, f.ill)
	eq(t, "the error of the look", err, nil)
	eq(t, "its last words at a look", read.Words, "let me see")
	eq(t, "its output", read.Output.Output, "let me see")
	eq(t, "its prompt", read.Prompt, "more")
	eq(t, "the answer at a look", read.Answer, "")
	f.must(f.session, tree.Send{Message: say("more")})
	_, err = f.Outcome(f.t.Context(), f.session, tree.ChildRun{Task: f.root, Run: 2})
	if err == nil {
		t.Errorf("the outcome of a run that goes on: %v", err)
	}
}

// outcomesStay: how a run has ended can be read as long as its session exists, whatever its task
// does afterwards, also through the calls that its end has closed.
func outcomesStay(t *testing.T, d Dialect) {
	f := newFamily(t, d)
	var runs []tree.Outcome
	for n := range 3 {
		run := tree.ChildRun{Task: f.root, Run: n + 1}
		runs = append(runs, must[tree.Outcome](t)(f.Outcome(t.Context(), f.session, run)))
		f.must(f.session, tree.Send{Message: say("more")})
		f.clock.advance(time.Second)
		f.claim(f.session, f.root).answers(fmt.Sprint("answer ", n+1))
	}
	f.must(f.session, tree.Send{Task: f.well, Message: say("once more")})
	check := func() {
		t.Helper()
		for n, want := range runs {
			got := must[tree.Outcome](t)(f.Outcome(t.Context(), f.session, tree.ChildRun{Task: f.root, Run: n + 1}))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("run %d has ended with\n%+v, not\n%+v", n+1, got, want)
			}
		}
		again := must[[]tree.Message](t)(f.Transcript(t.Context(), f.session, f.root, 0, 0))
		if !reflect.DeepEqual(again[:len(f.transcript)], f.transcript) {
			t.Errorf("the transcript begins with\n%+v, not\n%+v", again, f.transcript)
		}
		rows := must[*tree.SessionRows](t)(f.Rows(t.Context(), f.session))
		if found := tree.Diagnose(rows); len(found) > 0 {
			t.Errorf("the rows are not in order: %+v", found)
		}
	}
	check()
	f.claim(f.session, f.well).answers("well again")
	f.restart()
	check()
}

// anyBytes: texts of people, models and tools may have NUL; names may not.
func anyBytes(t *testing.T, d Dialect) {
	const nul = "a\x00b"
	b := setup(t, d)
	cmd := create(1)
	cmd.Metadata, cmd.Message = map[string]string{"k": nul}, say(nul)
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	w := b.claim(cmd.ID, root)
	w.calls(nul)
	w.closes(1, nul, false)
	b.must(cmd.ID, tree.Report{From: w.from(), Activity: nul})
	s := must[*tree.Session](t)(b.Session(t.Context(), "acme", cmd.ID))
	eq(t, "the title that the message gives", s.Title, "a\uFFFDb")
	eq(t, "the metadata", s.Metadata["k"], nul)
	eq(t, "the activity", must[*tree.Task](t)(b.Task(t.Context(), cmd.ID, root)).Activity, nul)
	messages := must[[]tree.Message](t)(b.Transcript(t.Context(), cmd.ID, root, 0, 0))
	if result, ok := messages[2].Blocks[0].(tree.ToolResult); !ok || result.Text != nul {
		t.Errorf("the result of the call is %+v", messages[2].Blocks[0])
	}
	w.fails(tree.ReasonToolError, nul)
	outcome := must[tree.Outcome](t)(b.Outcome(t.Context(), cmd.ID, tree.ChildRun{Task: root, Run: 1}))
	eq(t, "the detail", outcome.Run.Detail, nul)
	c := child("look")
	c.Description = nul
	if _, err := b.Update(t.Context(), cmd.ID, tree.SpawnTask{Child: c}); !errors.Is(err, tree.ErrBadInput) {
		t.Errorf("a name with NUL was answered %v", err)
	}
	key := store.Key{Key: nul}
	first := must[tree.Answer](t)(b.UpdateOnce(t.Context(), cmd.ID, key, tree.SpawnTask{Child: child("look")}))
	eq(t, "the answer to a repeat", must[tree.Answer](t)(b.UpdateOnce(t.Context(), cmd.ID, key, tree.SpawnTask{Child: child("look")})), first)
}
