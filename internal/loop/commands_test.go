package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

func (j *journal) Stop(block int, task tree.TaskID) loop.Pending {
	return j.request(func(f tree.From) tree.Command {
		return tree.AwaitTask{From: f, Block: block, Target: task, Stop: true}
	})
}

// unheard is the answer to a request that gives a command away, until somebody waits for it.
func (j *journal) unheard(children []loop.Child, answer loop.Pending) loop.Pending {
	if !slices.ContainsFunc(children, func(c loop.Child) bool { return c.Command != nil }) {
		return answer
	}
	j.untold.Add(1)
	return &unheard{answer, j, children}
}

type unheard struct {
	loop.Pending
	j        *journal
	children []loop.Child
}

func (u *unheard) Wait(ctx context.Context) (loop.Reply, error) {
	u.j.untold.Add(-1)
	for _, c := range u.children {
		if u.j.heard != nil && c.Command != nil {
			u.j.heard(c.Command)
		}
	}
	return u.Pending.Wait(ctx)
}

// shell reads the command that a call asks for. Those with a description are taken;
// of the others nothing is left, so the core refuses them.
func (j *journal) shell(c loop.Child) tree.CallChild {
	shell := &tree.Shell{Nonce: 1, File: c.Command.Output, ByUser: c.Command.ByUser}
	if c.Description != "" {
		c.Command.Take()
		j.launched = append(j.launched, c.Command)
		shell.Line = c.Command.Line
	}
	return tree.CallChild{Block: c.Block, Background: true, Child: tree.Child{Description: c.Description}, Shell: shell}
}

// shells gives a session whose root makes these calls and then says what came of
// them, and the workspace that it has.
func shells(t *testing.T, prepare func(*loop.Run), uses ...tree.ToolUse) (*core, string) {
	t.Helper()
	w, err := tool.OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	confined, err := sandbox.New(sandbox.Config{Mode: sandbox.Off, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if turn(req) == 0 {
			return calls(uses...)
		}
		return says("that is all")
	}), tool.NewBash(confined, false, nil))
	c.prepare = func(r *loop.Run) {
		r.Workspace, r.TakesCommands = w, true
		r.Authority = policy.RootAuthority(policy.Layer{Mode: policy.ModeBypass}, policy.Permissions{}, false)
		prepare(r)
	}
	c.must(tree.CreateSession{
		ID: tree.SessionID{1}, Agent: c.agents["root"], Message: []tree.Block{tree.Text{Text: "go"}}, Limits: tree.DefaultLimits(),
	})
	return c, w.Dir()
}

func bash(command, description string, background bool) tree.ToolUse {
	return use("bash", map[string]any{"command": command, "description": description, "run_in_background": background})
}

// pidOf reads the id of a process.
func pidOf(t *testing.T, text string) int {
	t.Helper()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func saidAll(t *testing.T, c *core, wants ...string) {
	t.Helper()
	said := c.say()
	for _, want := range wants {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
}

// TestCommandsGoToTheBackground: those under way, when that is asked for the message
// that has called them; the process is the one that was begun.
func TestCommandsGoToTheBackground(t *testing.T) {
	t.Parallel()
	release := make(chan int)
	c, dir := shells(t, func(r *loop.Run) { r.ToBackground = release },
		bash("echo $$ > pid; exec sleep 1000", "server", false),
		bash("echo $$ > refused; exec sleep 1000", "", false))
	begun, refused := proctest.OpenLines(t, filepath.Join(dir, "pid")), proctest.OpenLines(t, filepath.Join(dir, "refused"))
	pids := make(chan string, 2)
	go func() {
		pids <- begun.Next()
		pids <- refused.Next()
		release <- 7 // another message's
		release <- 2
		release <- 2
	}()
	c.play(t.Context())
	saidAll(t, c, `"backgrounded_by_user":true`, "root/server: running", "root: completed", "the text is empty: command")
	pid := pidOf(t, <-pids)
	proctest.Gone(t, pidOf(t, <-pids))
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil || len(c.launched) != 1 {
		t.Fatalf("%d commands go on, of which this one: %v", len(c.launched), err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	end := c.launched[0].Run(stopped, func(string) {})
	if end.Reason != tree.ReasonInterrupted {
		t.Errorf("it ended as %+v", end)
	}
	proctest.Gone(t, pid)
}

// observer keeps which calls were over with the run.
type observer struct {
	mu   sync.Mutex
	over []string // their descriptions
}

func (o *observer) Tool(ctx context.Context, _ tree.SessionID, _ tree.TaskID, _ string, use tree.ToolUse) (context.Context, func(string, bool)) {
	return ctx, func(string, bool) {
		var input struct{ Description string }
		if err := json.Unmarshal(use.Input, &input); err != nil {
			panic(err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.over = append(o.over, input.Description)
	}
}

// TestCommandsInTheBackgroundAreNotOver: who starts a command as a task tells of its call, so
// the worker does so only of what came before that.
func TestCommandsInTheBackgroundAreNotOver(t *testing.T) {
	t.Parallel()
	seen := &observer{}
	release := make(chan int)
	c, dir := shells(t, func(r *loop.Run) { r.Observer, r.ToBackground = seen, release },
		bash("exec sleep 1000", "server", true), bash("echo $$ > pid; exec sleep 1000", "moved", false))
	begun := proctest.OpenLines(t, filepath.Join(dir, "pid"))
	go func() {
		begun.Next()
		release <- 2
	}()
	c.play(t.Context())
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, command := range c.launched {
		command.Run(stopped, func(string) {})
	}
	if len(c.launched) != 2 || !slices.Equal(seen.over, []string{"moved"}) {
		t.Errorf("%d commands go on, and over are the calls %q", len(c.launched), seen.over)
	}
}

// TestCommandsBesideAChild: a run that waits for a child parks once it knows which of its
// commands have become tasks.
func TestCommandsBesideAChild(t *testing.T) {
	t.Parallel()
	c, _ := shells(t, func(*loop.Run) {})
	c.model = answers(func(req *model.Request) (*model.Answer, error) {
		if turn(req) > 0 || req.Messages[0].Text() != "go" {
			return says("that is all")
		}
		return calls(bash("sleep 1000", "server", true),
			use("task", map[string]any{"description": "look", "prompt": "p", "subagent_type": "scout"}))
	})
	c.play(t.Context())
	saidAll(t, c, "root/server: running", "root/look: completed", "root: completed")
	if len(c.launched) != 1 {
		t.Fatalf("%d commands go on", len(c.launched))
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	c.launched[0].Run(stopped, func(string) {})
}

// TestCommandsGoOnBesideOthers: a command is a task at once, whatever the other calls of
// the message still do.
func TestCommandsGoOnBesideOthers(t *testing.T) {
	t.Parallel()
	t.Run("a server and its client", func(t *testing.T) {
		t.Parallel()
		c, dir := shells(t, func(*loop.Run) {},
			bash("echo served > pipe", "server", true),
			use("bash", map[string]any{"command": "cat pipe", "timeout": 60_000}))
		if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(t.Context())
		var carried sync.WaitGroup
		c.heard = func(command *tool.Command) {
			carried.Go(func() { command.Run(running, func(string) {}) })
		}
		c.play(t.Context())
		saidAll(t, c, "root/server: running", "result 2 served", "root: completed")
		stop()
		carried.Wait()
	})
	t.Run("moved by a user", func(t *testing.T) {
		t.Parallel()
		release, heard := make(chan int), make(chan struct{})
		c, dir := shells(t, func(r *loop.Run) { r.ToBackground = release },
			bash("echo $$ > pid; exec sleep 1000", "server", false), use("slow", map[string]any{}))
		c.tools = append(c.tools, slow{heard})
		c.heard = func(*tool.Command) { close(heard) }
		begun := proctest.OpenLines(t, filepath.Join(dir, "pid"))
		go func() {
			begun.Next()
			release <- 2
		}()
		c.play(t.Context())
		saidAll(t, c, `"backgrounded_by_user":true`, "root/server: running", "result 2 heard", "root: completed")
		stopped, stop := context.WithCancel(t.Context())
		stop()
		for _, command := range c.launched {
			command.Run(stopped, func(string) {})
		}
	})
}

// slow is a tool that takes until a command is known to be a task.
type slow struct{ heard <-chan struct{} }

func (slow) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "slow", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (slow) Effect() tool.Effect { return tool.EffectNone }

func (s slow) Call(context.Context, tool.Call) tool.Outcome {
	select {
	case <-s.heard:
		return tool.Done{Text: "heard"}
	case <-time.After(time.Minute):
		return tool.Done{IsError: true, Text: "nobody has asked for the command to be a task"}
	}
}

func TestCommandsWithoutABackground(t *testing.T) {
	t.Parallel()
	t.Run("switched off", func(t *testing.T) {
		t.Parallel()
		c, _ := shells(t, func(r *loop.Run) { r.NoBackground = true }, bash("echo here", "d", true))
		c.play(t.Context())
		saidAll(t, c, "result 1 here", "root: completed")
	})
	t.Run("of another release", func(t *testing.T) {
		t.Parallel()
		c, _ := shells(t, func(r *loop.Run) { r.TakesCommands = false },
			bash("echo here", "d", true), use("kill_task", map[string]any{"task_id": "01980000-0000-7000-8000-000000000001"}))
		c.play(t.Context())
		saidAll(t, c, "result 1 commands can't run in the background here", "result 2 tasks can't be ended here", "root: completed")
	})
}

// TestCommandsFallWithTheAttempt: a command of an attempt that is lost before it is a
// task is not left running.
func TestCommandsFallWithTheAttempt(t *testing.T) {
	t.Parallel()
	release := make(chan int)
	c, dir := shells(t, func(r *loop.Run) { r.ToBackground = release }, bash("echo $$ > pid; exec sleep 1000", "", false))
	const spawned = 3 // after the message and the start of the call
	c.lose = func(i int) (bool, bool) { return i == spawned, false }
	begun, pids := proctest.OpenLines(t, filepath.Join(dir, "pid")), make(chan string, 1)
	go func() {
		pids <- begun.Next()
		release <- 2
	}()
	c.play(t.Context())
	saidAll(t, c, "outcome unknown", "root: completed")
	proctest.Gone(t, pidOf(t, <-pids))
}
