package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// histories: random commands, many per transaction, some refused, with restarts in between, lead to
// the same answers and the same rows as one view that never left memory.
func histories(t *testing.T, d Dialect) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := &history{
				bundle: setup(t, d), rng: rand.New(rand.NewPCG(seed, 1)),
				view: tree.NewView(nil), ids: sequentialIDs(),
			}
			h.play(create(1))
			for range 60 {
				cmds := make([]tree.Command, 1+h.rng.IntN(8))
				for i := range cmds {
					cmds[i] = h.command()
				}
				h.play(cmds...)
				if h.rng.IntN(20) == 0 {
					h.restart()
				}
			}
			h.compare()
		})
	}
}

// history is a session that is played on a store and, in memory, on a view that holds all rows.
type history struct {
	*bundle
	rng  *rand.Rand
	view *tree.View
	ids  func() [16]byte
}

// play carries out commands together and compares the answers.
func (h *history) play(cmds ...tree.Command) {
	h.t.Helper()
	h.clock.advance(time.Second)
	queued := h.submitted(session(1), cmds...)
	for i, cmd := range cmds {
		answer, err := h.remember(cmd)
		got, gotErr := queued[i].Wait(h.t.Context())
		if !reflect.DeepEqual(got, answer) || fmt.Sprint(gotErr) != fmt.Sprint(err) {
			h.t.Fatalf("%+v was answered\n%+v, %v; in memory\n%+v, %v", cmd, got, gotErr, answer, err)
		}
	}
}

// remember decides a command in memory. A row that the view does not hold does not exist.
func (h *history) remember(cmd tree.Command) (tree.Answer, error) {
	for missing := h.view.Missing(cmd); !missing.Empty(); missing = h.view.Missing(cmd) {
		for _, id := range missing.Tasks {
			h.view.PutTask(id, nil)
		}
		for _, key := range missing.Calls {
			h.view.PutCall(key, nil)
		}
		for _, id := range missing.OpenCalls {
			h.view.PutOpenCalls(id, nil)
		}
		for _, id := range missing.Inbox {
			h.view.PutInbox(id, nil)
		}
		for _, run := range missing.Watchers {
			h.view.PutWatchers(run, nil)
		}
		for _, id := range missing.Below {
			h.view.PutBelow(id, nil)
		}
		for _, run := range missing.Callbacks {
			h.view.PutCallback(run, nil)
		}
	}
	return tree.Decide(h.view, tree.Env{Now: h.clock.Now(), NewID: h.ids, Replica: replica}, cmd)
}

// tasks gives the tasks in memory by id.
func (h *history) tasks() []*tree.Task {
	return slices.SortedFunc(maps.Values(h.view.Changes().Tasks), func(a, b *tree.Task) int {
		return bytes.Compare(a.ID[:], b.ID[:])
	})
}

// command makes up a command that is likely to be accepted.
func (h *history) command() tree.Command {
	tasks := h.tasks()
	t := tasks[h.rng.IntN(len(tasks))]
	token := tree.Token{Epoch: t.Epoch, Nonce: uint64(t.Epoch) << 62}
	switch {
	case h.rng.IntN(10) == 0:
		return tree.Send{Task: t.ID, Message: say("listen")}
	case h.rng.IntN(20) == 0:
		return tree.SpawnTask{Parent: t.ID, Child: child("work"), Notify: h.rng.IntN(2) == 0}
	case h.rng.IntN(20) == 0:
		return tree.Redeliver{Task: t.ID, Epoch: t.Epoch, Blame: true}
	case h.rng.IntN(15) == 0:
		return h.callback(t)
	case h.rng.IntN(30) == 0:
		return tree.Cancel{Task: t.ID, Run: h.rng.IntN(t.Run + 1), Detail: "enough"}
	case h.rng.IntN(20) == 0:
		return tree.BackgroundCommands{Task: t.ID}
	case t.State == tree.StatePending:
		return tree.Claim{Task: t.ID, Token: token, Worker: "w"}
	case t.State == tree.StateRunning:
		return h.request(t, tree.From{Task: t.ID, Token: token, Attach: t.Attach, Seq: t.LastSeq + 1})
	default:
		return tree.Send{Message: say("go on")}
	}
}

// request makes up the next request of the worker of a running task.
func (h *history) request(t *tree.Task, from tree.From) tree.Command {
	if t.Kind == tree.KindShell {
		return h.prints(from)
	}
	if t.OpenCalls == 0 {
		switch h.rng.IntN(5) {
		case 4:
			return h.hooks(from)
		case 0:
			return tree.Report{From: from, Activity: "reading"}
		case 1:
			return tree.End{From: from, Reason: tree.ReasonToolError, Detail: "it broke"}
		case 2:
			return tree.End{From: from, Answer: &tree.Message{Blocks: say("done"), Model: "m-1", Stop: tree.StopEndTurn}}
		}
		m := tree.Message{Model: "m-1", Stop: tree.StopToolUse, Usage: tree.Usage{Input: 3, CacheRead: 2}}
		for range 1 + h.rng.IntN(3) {
			m.Blocks = append(m.Blocks, tree.ToolUse{ProviderID: "call_0", Name: "tool"})
		}
		return tree.AppendAnswer{From: from, Message: m}
	}
	block := h.rng.IntN(3)
	switch h.rng.IntN(6) {
	case 0:
		return tree.StartCall{From: from, Block: block}
	case 1:
		return tree.CloseCall{From: from, Block: block, Text: "a result", IsError: h.rng.IntN(2) == 0}
	case 2:
		return tree.Park{From: from}
	case 3:
		tasks := h.tasks()
		return tree.AwaitTask{
			From: from, Block: block, Target: tasks[h.rng.IntN(len(tasks))].ID, Timeout: time.Duration(h.rng.IntN(2)) * time.Hour,
			Stop: h.rng.IntN(5) == 0,
		}
	}
	c := tree.CallChild{Block: block, Child: child("do it"), Background: h.rng.IntN(2) == 0}
	if tasks := h.tasks(); h.rng.IntN(4) == 0 {
		c.Resume = tasks[h.rng.IntN(len(tasks))].ID
	}
	if h.rng.IntN(3) == 0 {
		c.Shell = &tree.Shell{Line: "make\x00", Nonce: 1 << 62, File: "out.txt", Timeout: time.Hour}
	}
	return tree.SpawnCalls{From: from, Children: []tree.CallChild{c}}
}

// compare compares the stored rows with those in memory.
func (h *history) compare() {
	h.t.Helper()
	want := h.view.Changes()
	s := must[*tree.Session](h.t)(h.Session(h.t.Context(), "acme", session(1)))
	if !reflect.DeepEqual(s, want.Session) {
		h.t.Errorf("the session is\n%+v, not\n%+v", s, want.Session)
	}
	stored := must[[]tree.Task](h.t)(h.Tree(h.t.Context(), session(1)))
	eq(h.t, "the number of tasks", len(stored), len(want.Tasks))
	for _, t := range stored {
		eq(h.t, "a task", t, *want.Tasks[t.ID])
		h.compareTranscript(t.ID, want)
	}
	events, err := h.Events(h.t.Context(), session(1), 0, len(want.Events)+1)
	if err != nil {
		h.t.Fatal(err)
	}
	eq(h.t, "the number of events", len(events), len(want.Events))
	for i, e := range events {
		if !proto.Equal(e, wire.Event(want.Events[i])) {
			h.t.Errorf("event %d is\n%v, not\n%v", i+1, e, wire.Event(want.Events[i]))
		}
	}
	h.looksAt(session(1))
	h.compareQueues(want)
	h.compareCallbacks(want)
	h.t.Logf("%d tasks, %d events, %d messages, %d runs", len(stored), len(events), len(want.Messages), len(want.Runs))
}

func (h *history) compareTranscript(task tree.TaskID, want *tree.Changes) {
	h.t.Helper()
	seen, err := h.Conversation(h.t.Context(), "", session(1), task)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range want.Messages {
		if m.Task != task {
			continue
		}
		if m.Ordinal > len(seen.Messages) || seen.Messages[m.Ordinal-1].ID != m.ID || seen.Messages[m.Ordinal-1].Role != m.Role {
			h.t.Fatalf("message %d of task %s is missing or another", m.Ordinal, task)
		}
	}
	for _, c := range want.Calls {
		if c.Task == task && c.State != tree.CallClosed && !slices.Contains(seen.Open, *c) {
			h.t.Errorf("the open calls of task %s are %+v, without %+v", task, seen.Open, *c)
		}
	}
	for _, c := range seen.Open {
		eq(h.t, "an open call", c, *want.Calls[tree.CallKey{Task: task, Ref: c.Ref}])
	}
}

// compareQueues compares due timers, attempts and ready runs.
func (h *history) compareQueues(want *tree.Changes) {
	h.t.Helper()
	h.clock.advance(24 * time.Hour)
	timers, err := h.DueTimers(h.t.Context(), 1<<20)
	if err != nil {
		h.t.Fatal(err)
	}
	var working, ready []tree.TaskID
	maps.DeleteFunc(want.Timers, func(_ tree.CallKey, t *tree.Timer) bool { return t == nil })
	eq(h.t, "the number of timers", len(timers), len(want.Timers))
	for _, timer := range timers {
		eq(h.t, "a timer", timer.Timer, *want.Timers[tree.CallKey{Task: timer.Task, Ref: timer.Ref}])
	}
	attempts, err := h.AttemptsOfReplica(h.t.Context(), replica)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, a := range attempts {
		working = append(working, a.Task)
		eq(h.t, "an attempt", a.Attempt, *want.Attempts[a.Task])
	}
	taken, err := h.PickReady(h.t.Context(), 1<<20, time.Second)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range taken {
		ready = append(ready, r.Task)
		eq(h.t, "a ready run", r.Ready, *want.Ready[r.Task])
	}
	for _, t := range want.Tasks {
		eq(h.t, "whether a task is with a worker", slices.Contains(working, t.ID), t.State == tree.StateRunning)
		eq(h.t, "whether a task is ready", slices.Contains(ready, t.ID), t.State == tree.StatePending)
	}
}
