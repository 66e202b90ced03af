package assembly_test

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/proctest"
)

// shells is a root that does as it is told: run a command, in the foreground or not,
// look at one, end one.
const shells = `
vars: {task: '(json (index (allResults "bash") 0)).task_id'}
steps:
  - {when: {last: '^front (?P<line>.*)'}, calls: [{tool: bash, input: {command: '{{group "line"}}'}}]}
  - {when: {last: '^back (?P<line>.*)'}, calls: [{tool: bash, input: {command: '{{group "line"}}', description: Build, run_in_background: true}}]}
  - {when: {last: '^both'}, calls: [
      {tool: bash, input: {command: 'echo served > pipe; while [ ! -e go ]; do sleep 0.02; done', description: Serve, run_in_background: true}},
      {tool: bash, input: {command: 'cat pipe', timeout: 60000}}]}
  - {when: {last: '^look'}, calls: [{tool: task_output, input: {task_id: '{{var "task"}}', block: false}}]}
  - {when: {last: '^kill'}, calls: [{tool: kill_task, input: {task_id: '{{var "task"}}'}}]}
  - {when: {last: '^delegate (?P<line>.*)'}, calls: [{tool: task, input: {description: d, prompt: 'back {{group "line"}}', subagent_type: general-purpose}}]}
  - {text: '{{.Last}}'}
`

// served is a command that says its process id, and goes on until it is told what to
// do, or until its directory is gone.
const served = `exec 9> held; echo up; while [ ! -e go ]; do sleep 0.02; done; echo over; exit 3`

// bypassing opens a session in which commands just run.
func (c *client) bypassing(text string) string {
	c.t.Helper()
	return c.openAs(text, "", &pb.Permissions{Mode: pb.PermissionMode_PERMISSION_MODE_BYPASS})
}

// shell waits for the command of a session to have printed a line, and gives it.
func (c *client) shell(session, line string) *pb.Task {
	c.t.Helper()
	found := ""
	c.events(session, func(e *pb.Event) bool {
		if e.GetProgress().GetActivity() == line {
			found = e.GetTaskId()
		}
		return found != ""
	})
	resp, err := c.GetTask(c.ctx(), &pb.GetTaskRequest{SessionId: session, TaskId: found})
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.GetTask().GetKind() != pb.TaskKind_TASK_KIND_SHELL {
		c.t.Fatalf("%q was printed by %v", line, resp.GetTask())
	}
	return resp.GetTask()
}

// turn waits for the end of a run of the root and gives its answer.
func (c *client) turn(session string, run int32) string {
	c.t.Helper()
	root := c.root(session)
	c.events(session, func(e *pb.Event) bool { return e.GetResult() != nil && e.GetTaskId() == root && e.GetRun() == run })
	messages := c.transcript(session, root)
	for i := len(messages) - 1; i >= 0; i-- {
		if m := messages[i]; m.GetRun() == run && m.GetRole() == pb.Role_ROLE_ASSISTANT {
			return m.GetBlocks()[0].GetText().GetText()
		}
	}
	return ""
}

// onCommands runs a test of commands with SQLite and with PostgreSQL.
func onCommands(t *testing.T, test func(*testing.T, *deployment, *proctest.Held)) {
	t.Helper()
	var all sync.Map // of deployments
	onBoth(t, shells, func(d *deployment) {
		all.Store(d, proctest.OpenHeld(d.t, d.in("held")))
	}, func(t *testing.T, d *deployment) {
		held, _ := all.Load(d)
		test(t, d, held.(*proctest.Held))
	})
}

func has(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: %q is not in %s", what, want, text)
		}
	}
}

func TestCommandInTheForeground(t *testing.T) {
	t.Parallel()
	onBoth(t, shells, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.bypassing("front echo out; echo err >&2; pwd; exit 3")
		if got, want := c.turn(session, 1), "out\nerr\n"+d.dir+"\n[exit code 3]"; got != want {
			t.Errorf("the command said %q, want %q", got, want)
		}
		if n := len(c.tasks(session)); n != 1 {
			t.Errorf("there are %d tasks", n)
		}
		asked := c.create("front git status").GetId()
		if a := c.blocked(asked)[0]; a.GetTool() != "bash" || a.GetArgument() != "git status" {
			t.Errorf("asked is %v", a)
		}
		denied := c.openAs("delegate echo x", "", &pb.Permissions{Approvals: pb.SubagentApprovals_SUBAGENT_APPROVALS_DENY})
		has(t, "a sub-agent that may not ask", c.turn(denied, 1), "APPROVAL_DENIED")
		c.sound()
	})
}

func TestCommandInTheBackground(t *testing.T) {
	t.Parallel()
	onCommands(t, func(t *testing.T, d *deployment, held *proctest.Held) {
		c := d.client()
		session := c.bypassing("back " + served)
		has(t, "the launch", c.turn(session, 1), `"result":"async_launched"`, `"status":"running"`, `"output_file":".coppice/output/`)
		shell := c.shell(session, "up")
		if shell.GetDescription() != "Build" || !shell.GetBackground() || shell.GetParentId() != c.root(session) || shell.GetAgent() != "" {
			t.Errorf("the command is %v", shell)
		}
		c.hears(session, "look", "")
		has(t, "the output", c.turn(session, 2), `"kind":"shell"`, `"status":"running"`, `"output":"up\n"`)
		d.write("go", "")
		if ended := c.wait(session, shell.GetId()); ended.GetReason() != pb.Reason_REASON_TOOL_ERROR || ended.GetDetail() != "exit code 3" {
			t.Errorf("the command ended as %v", ended)
		}
		has(t, "the news", c.turn(session, 3), "Your background command failed: Build", `"summary":"up\nover\n"`, `"error":"exit code 3"`)
		waited, err := c.WaitTask(c.ctx(), &pb.WaitTaskRequest{SessionId: session, TaskId: shell.GetId()})
		if err != nil || waited.GetOutput().GetShell().GetCommand() != served || waited.GetOutput().GetOutput() != "up\nover\n" {
			t.Errorf("the output is %v, %v", waited.GetOutput(), err)
		}
		kept, err := os.ReadFile(d.in(".coppice/output/" + c.root(session) + "-2-0.txt"))
		if err != nil || string(kept) != "up\nover\n" {
			t.Errorf("the file has %q, %v", kept, err)
		}
		held.Gone()
		c.sound()
	})
}

// TestCommandBesideItsClient: a command in the background goes on although another call of
// the message still runs, which waits for it.
func TestCommandBesideItsClient(t *testing.T) {
	t.Parallel()
	onBoth(t, shells, func(d *deployment) {
		if err := syscall.Mkfifo(d.in("pipe"), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.bypassing("both")
		has(t, "the client", c.turn(session, 1), "served")
		d.write("go", "")
		has(t, "the news", c.turn(session, 2), "Your background command completed: Serve")
		c.sound()
	})
}

func TestCommandIsKilled(t *testing.T) {
	t.Parallel()
	onCommands(t, func(t *testing.T, d *deployment, held *proctest.Held) {
		c := d.client()
		session := c.bypassing("back " + served)
		shell := c.shell(session, "up")
		c.turn(session, 1)
		c.hears(session, "kill", "")
		has(t, "the result", c.turn(session, 2), `"kind":"shell"`, `"status":"cancelled"`, "It was running", `"output":"up\n"`)
		if ended := c.wait(session, shell.GetId()); ended.GetReason() != pb.Reason_REASON_CANCELLED_BY_PARENT {
			t.Errorf("the command ended as %v", ended)
		}
		held.Gone()
		c.sound()
	})
}

// TestCommandFallsWithTheTree: a cancel of the session's turn ends the command of a
// sub-agent with its process.
func TestCommandFallsWithTheTree(t *testing.T) {
	t.Parallel()
	onCommands(t, func(t *testing.T, d *deployment, held *proctest.Held) {
		c := d.client()
		session := c.bypassing("delegate " + served)
		shell := c.shell(session, "up")
		if shell.GetDepth() != 2 {
			t.Errorf("the command is %v", shell)
		}
		if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session}); err != nil {
			t.Fatal(err)
		}
		if ended := c.wait(session, shell.GetId()); ended.GetState() != pb.TaskState_TASK_STATE_CANCELLED || ended.GetResult() == "" {
			t.Errorf("the command ended as %v", ended)
		}
		held.Gone()
		c.sound()
	})
}

// TestCommandGoesToTheBackground: what a user puts into the background is not begun
// again.
func TestCommandGoesToTheBackground(t *testing.T) {
	t.Parallel()
	onBoth(t, shells, nil, func(t *testing.T, d *deployment) {
		began := proctest.OpenLines(t, d.in("began"))
		c := d.client()
		session := c.bypassing("front echo > began; echo >> starts; " + served)
		move := &pb.BackgroundTaskRequest{SessionId: session, Commands: true}
		began.Next()
		if _, err := c.BackgroundTask(c.ctx(), move); err != nil {
			t.Fatal(err)
		}
		has(t, "the result", c.turn(session, 1), `"backgrounded_by_user":true`, `"result":"async_launched"`)
		shell := c.shell(session, "up")
		if _, err := c.BackgroundTask(c.ctx(), move); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("where nothing runs: %v", err)
		}
		d.write("go", "")
		c.wait(session, shell.GetId())
		has(t, "the news", c.turn(session, 2), `"summary":"up\nover\n"`, `"error":"exit code 3"`)
		if starts, err := os.ReadFile(d.in("starts")); err != nil || string(starts) != "\n" {
			t.Errorf("the command was begun %d times, %v", len(starts), err)
		}
		c.sound()
	})
}

// TestCommandIsInterrupted: it ends with its worker, whether that is told to stop or
// is killed, and what it had printed is known.
func TestCommandIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onCommands(t, func(t *testing.T, d *deployment, held *proctest.Held) {
				c := d.client()
				session := c.bypassing("back " + served)
				shell := c.shell(session, "up")
				c.turn(session, 1)
				for _, worker := range []string{"worker 1", "worker 2"} {
					if err := d.processes[worker].Process.Signal(signal); err != nil {
						t.Fatal(err)
					}
				}
				ended := c.wait(session, shell.GetId())
				if ended.GetReason() != pb.Reason_REASON_INTERRUPTED || ended.GetResult() != "up\n" || ended.GetEpoch() != 1 {
					t.Errorf("the command ended as %v", ended)
				}
				if signal == syscall.SIGTERM {
					held.Gone()
				}
				for _, worker := range []string{"worker 1", "worker 2"} {
					cmd := d.processes[worker]
					delete(d.processes, worker)
					_ = cmd.Wait() // it was told to
				}
				d.startWorker("worker 3")
				has(t, "the news", c.turn(session, 2), `"reason":"INTERRUPTED"`, `"summary":"up\n"`)
				c.sound()
			})
		})
	}
}
