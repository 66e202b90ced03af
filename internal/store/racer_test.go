package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// field is a session in which races are run, each below a task of its own.
type field struct {
	t       *testing.T
	dbs     []*store.Store // all of one database
	session tree.SessionID
}

func openField(t *testing.T, dbs []*store.Store) *field {
	f := &field{t, dbs, newSession()}
	cmd := open(f.session)
	cmd.Limits.Running = 1000
	f.must(cmd)
	return f
}

func (f *field) must(cmd tree.Command) tree.Answer {
	answer, err := f.dbs[0].Update(f.t.Context(), f.session, cmd)
	if err != nil {
		f.t.Errorf("%T: %v", cmd, err)
	}
	return answer
}

func (f *field) task(id tree.TaskID) *tree.Task {
	task, err := f.dbs[0].Task(f.t.Context(), f.session, id)
	if err != nil {
		f.t.Error(err)
		return &tree.Task{}
	}
	return task
}

// atOnce lets everyone go at the same moment, each to another replica if there are
// several, and says what they were told.
func (f *field) atOnce(cmds []tree.Command) []string {
	told := make([]string, len(cmds))
	var ready, racing sync.WaitGroup
	ready.Add(len(cmds))
	for i, side := range rand.Perm(len(cmds)) { // the one started last tends to be first
		racing.Go(func() {
			ready.Done()
			ready.Wait()
			told[side] = word(f.dbs[i%len(f.dbs)].Update(f.t.Context(), f.session, cmds[side]))
		})
	}
	racing.Wait()
	return told
}

// sound checks that the session breaks no rule and that no run has ended twice, and
// gives the states of its tasks.
func (f *field) sound() map[tree.TaskID]tree.State {
	rows, err := f.dbs[len(f.dbs)-1].Rows(f.t.Context(), f.session)
	if err != nil {
		f.t.Error(err)
		return nil
	}
	for _, v := range tree.Diagnose(rows) {
		f.t.Errorf("%s: %s: %s", v.Rule, v.Task, v.Detail)
	}
	results := map[tree.ChildRun]int{}
	for _, e := range rows.Events {
		if e.Result {
			results[tree.ChildRun{Task: e.Task, Run: e.Run}]++
		}
	}
	states := map[tree.TaskID]tree.State{}
	for i := range rows.Tasks {
		t := &rows.Tasks[i]
		states[t.ID] = t.State
		for run := 1; run <= t.Run; run++ {
			if n := results[tree.ChildRun{Task: t.ID, Run: run}]; n > 1 || (n == 0) == (run < t.Run || t.State.Terminal()) {
				f.t.Errorf("run %d of a task that is in its run %d, %s, has %d results", run, t.Run, t.State, n)
			}
		}
	}
	return states
}

// end cancels the whole tree, which has to end with it.
func (f *field) end() {
	f.must(tree.Cancel{})
	for id, state := range f.sound() {
		if state.Active() {
			f.t.Errorf("all was cancelled, and task %s is %s", id, state)
		}
	}
}

// word is what somebody was told, in short.
func word(answer tree.Answer, err error) string {
	var refused *tree.Error
	if errors.As(err, &refused) {
		name, _, _ := strings.Cut(refused.Error(), ":")
		return name
	}
	switch a := answer.(type) {
	case tree.Cancelled:
		return fmt.Sprint("cancelled ", a.Runs)
	case tree.Ended:
		return "ended " + a.State.String()
	case tree.ParkedRun:
		return "parked"
	case tree.Stored:
		if a.Boundary > 0 {
			return "stored, go on"
		}
		return "stored"
	case tree.Sent:
		if a.Queued {
			return fmt.Sprint("queued for run ", a.Run)
		}
		return fmt.Sprint("began run ", a.Run)
	case tree.Spawned:
		return "spawned"
	case *tree.Claimed:
		return "claimed"
	case tree.Done, tree.DoneTo:
		return "done"
	}
	return fmt.Sprintf("%T, %v", answer, err)
}

// racer is a task below the root, and its child if it has one.
type racer struct {
	*field
	lead, child tree.TaskID
	seqs        map[tree.TaskID]int64 // requests of the workers
}

func lead(w *racer) tree.TaskID  { return w.lead }
func child(w *racer) tree.TaskID { return w.child }

// ground brings a pending task to where a race begins.
type ground func(*racer)

// alone: the task is with a worker. In asking, one call of it is open; in calling,
// the call waits for its child, which is with a worker too; in launched, the child
// is in the background, and another call is open.
func pending(*racer)  {}
func alone(w *racer)  { w.claim(w.lead) }
func asking(w *racer) { alone(w); w.asks() }
func calling(w *racer) {
	asking(w)
	w.spawns(false)
}
func launched(w *racer) {
	asking(w)
	w.spawns(true)
	w.asks()
}

func (f *field) racer(g ground) *racer {
	w := &racer{field: f, seqs: map[tree.TaskID]int64{}}
	if spawned, ok := f.must(spawn("race")).(tree.Spawned); ok {
		w.lead = spawned.Task
		g(w)
	}
	return w
}

func (w *racer) claim(id tree.TaskID) { w.must(claimOf(id, 1)) }

func claimOf(id tree.TaskID, nonce uint64) tree.Claim {
	return tree.Claim{Task: id, Token: tree.Token{Epoch: 1, Nonce: nonce}, Worker: "w"}
}

// from is the next request of a task's worker.
func (w *racer) from(id tree.TaskID) tree.From {
	w.seqs[id]++
	return tree.From{Task: id, Token: tree.Token{Epoch: 1, Nonce: 1}, Attach: 1, Seq: w.seqs[id]}
}

func (w *racer) asks() {
	w.must(tree.AppendAnswer{From: w.from(w.lead), Message: tree.Message{Blocks: []tree.Block{tree.ToolUse{Name: "task"}}}})
}

// spawns starts the child for the open call.
func (w *racer) spawns(background bool) {
	w.must(w.spawning(tree.CallChild{Child: spawn("help").Child, Background: background}))
	page, err := w.dbs[0].Tasks(w.t.Context(), w.session, w.lead, "", 10)
	if err != nil || len(page.Rows) != 1 {
		w.t.Errorf("a call has started %d children (%v)", len(page.Rows), err)
		return
	}
	w.child = page.Rows[0].ID
	w.claim(w.child)
}

func (w *racer) spawning(c tree.CallChild) tree.Command {
	return tree.SpawnCalls{From: w.from(w.lead), Children: []tree.CallChild{c}}
}

// rival makes one side's command.
type rival func(*racer) tree.Command

func (w *racer) commands(rivals []rival) []tree.Command {
	cmds := make([]tree.Command, len(rivals))
	for i, r := range rivals {
		cmds[i] = r(w)
	}
	return cmds
}

func (w *racer) ends(id tree.TaskID) tree.Command {
	return tree.End{From: w.from(id), Answer: &tree.Message{Blocks: []tree.Block{tree.Text{Text: "done"}}}}
}

func message(id tree.TaskID) tree.Command {
	return tree.Send{Task: id, Message: []tree.Block{tree.Text{Text: "go on"}}}
}

func spawnBelow(id tree.TaskID) tree.Command {
	cmd := spawn("help")
	cmd.Parent, cmd.Notify = id, true
	return cmd
}

func cancelLead(w *racer) tree.Command      { return tree.Cancel{Task: w.lead} }
func cancelChild(w *racer) tree.Command     { return tree.Cancel{Task: w.child} }
func endLead(w *racer) tree.Command         { return w.ends(w.lead) }
func endChild(w *racer) tree.Command        { return w.ends(w.child) }
func parkLead(w *racer) tree.Command        { return tree.Park{From: w.from(w.lead)} }
func backgroundChild(w *racer) tree.Command { return tree.Background{Task: w.child} }
func sendLead(w *racer) tree.Command        { return message(w.lead) }
func sendChild(w *racer) tree.Command       { return message(w.child) }
func spawnByClient(w *racer) tree.Command   { return spawnBelow(w.lead) }
func spawnBelowChild(w *racer) tree.Command { return spawnBelow(w.child) }

func loseLead(w *racer) tree.Command { return tree.Redeliver{Task: w.lead, Epoch: 1, Blame: true} }

func spawnByWorker(w *racer) tree.Command {
	return w.spawning(tree.CallChild{Child: spawn("help").Child})
}

func resumeChild(w *racer) tree.Command {
	return w.spawning(tree.CallChild{Child: tree.Child{Prompt: "go on"}, Resume: w.child})
}

func claimLead(nonce uint64) rival {
	return func(w *racer) tree.Command { return claimOf(w.lead, nonce) }
}
