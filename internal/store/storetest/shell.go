package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// launches has the worker of a run make a command a task, and gives the command's worker.
func (w *worker) launches(block int, line string) *worker {
	w.b.t.Helper()
	const nonce = 1<<63 + 11
	launched := w.b.must(w.session, tree.SpawnCalls{From: w.from(), Children: []tree.CallChild{
		{Block: block, Background: true, Shell: &tree.Shell{Line: line, Nonce: nonce, File: "out.txt"}},
	}}).(tree.Stored).Launched
	if len(launched) != 1 || launched[0].Block != block {
		w.b.t.Fatalf("launched are %+v", launched)
	}
	return &worker{b: w.b, session: w.session, task: launched[0].Task, token: tree.Token{Epoch: launched[0].Epoch, Nonce: nonce}}
}

// prints makes up the next request of the worker of a command.
func (h *history) prints(from tree.From) tree.Command {
	switch h.rng.IntN(4) {
	case 0:
		return tree.EndShell{From: from, Output: "over"}
	case 1:
		return tree.EndShell{From: from, Output: "a\x00b", Reason: tree.ReasonToolError, Detail: "exit code 1"}
	}
	return tree.Report{From: from, Output: strings.Repeat("line\x00\n", h.rng.IntN(5))}
}

// shells: a command is a task whose output is stored while it runs and afterwards.
func shells(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "go")
	w := b.claim(id, root)
	w.calls("bash", "bash")
	w.b.must(id, tree.StartCall{From: w.from(), Block: 1})
	b.must(id, tree.BackgroundCommands{Task: root})
	released := must[[]tree.Task](t)(b.ReleasedTasks(t.Context(), replica))
	if len(released) != 1 || released[0].ID != root || released[0].Release != 2 {
		t.Errorf("released are %+v", released)
	}
	b.mu.Lock()
	last := b.commits[len(b.commits)-1]
	b.mu.Unlock()
	if len(last.Released) != 1 || last.Released[0] != (tree.ReleasedCommands{Session: id, Task: root, Epoch: 1, Message: 2}) {
		t.Errorf("the commit tells of %+v", last.Released)
	}
	shell := w.launches(1, "make\nall")
	w.closes(2, "done", false)
	eq(t, "what is released at the boundary", len(must[[]tree.Task](t)(b.ReleasedTasks(t.Context(), replica))), 0)
	const printed = "compiling a.c\x00\ncompiling b.c"
	b.must(id, tree.Report{From: shell.from(), Output: printed})
	w.answers("it builds")
	running := must[*tree.Task](t)(b.Task(t.Context(), id, shell.task))
	if running.Kind != tree.KindShell || running.Output != printed || running.Description != "make all" || running.Activity != "compiling b.c" {
		t.Errorf("the task is %+v", running)
	}
	out, err := b.Output(t.Context(), running)
	if err != nil || out.Output.Output != printed || out.Prompt != "make\nall" || out.Status != "running" || out.Kind != "shell" {
		t.Errorf("the output is %+v, %v", out, err)
	}
	s := must[*tree.Session](t)(b.Session(t.Context(), "acme", id))
	if s.Shells != 1 || s.Running != 0 || s.Idle() {
		t.Errorf("the session is %+v", s)
	}
	b.must(id, tree.EndShell{From: shell.from(), Output: printed, Reason: tree.ReasonToolError, Detail: "exit code 2"})
	ended := must[*tree.Task](t)(b.Task(t.Context(), id, shell.task))
	if out, err := b.Output(t.Context(), ended); err != nil || out.Output.Output != printed || out.Error != "exit code 2" || ended.Output != "" {
		t.Errorf("the output is %+v, %v, the task %+v", out, err, ended)
	}
	messages := must[[]tree.Message](t)(b.Transcript(t.Context(), id, shell.task, 0, 0))
	if len(messages) != 2 || messages[0].Text() != "make\nall" || messages[1].Text() != printed {
		t.Errorf("the transcript is %+v", messages)
	}
	all := must[[]tree.Message](t)(b.Transcript(t.Context(), id, root, 0, 0))
	if news := all[len(all)-1].Text(); !strings.Contains(news, "Your background command failed: make all") || !strings.Contains(news, "exit code 2") {
		t.Errorf("the news is %s", news)
	}
}

// shellCaps: commands count for no cap on running tasks, and a session in which one runs is not
// inactive.
func shellCaps(t *testing.T, d Dialect) {
	config := d.Fresh(t)
	config.Caps = store.Caps{Tenant: 1, All: 1}
	b := d.opened(t, config)
	b.run()
	cmd := create(1)
	cmd.Limits.Running, cmd.Message = 1, say("go")
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	eq(t, "how many are offered", len(b.take(10)), 1)
	w := b.claim(cmd.ID, root)
	w.calls("bash", "bash")
	shell := w.launches(1, "serve")
	w.launches(2, "serve")
	w.answers("up")
	b.must(cmd.ID, tree.SpawnTask{Child: child("work")})
	taken := b.take(10)
	eq(t, "how many are offered beside commands", len(taken), 1)
	b.claim(cmd.ID, taken[0].Task).answers("done")
	b.clock.advance(time.Hour)
	old := func() int {
		t.Helper()
		found, _, err := b.InactiveSessions(t.Context(), time.Minute, tree.SessionID{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	eq(t, "old sessions while a command runs", old(), 0)
	b.must(cmd.ID, tree.Redeliver{Task: shell.task, Epoch: 1, Blame: true})
	eq(t, "how it ends", must[*tree.Task](t)(b.Task(t.Context(), cmd.ID, shell.task)).Reason, tree.ReasonInterrupted)
	b.must(cmd.ID, tree.CloseSession{})
	b.clock.advance(time.Hour)
	eq(t, "old sessions when none does", old(), 1)
}
