package assembly_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// noting is a root that looks what is there, writes a file of the name that it is told,
// and says what was there before.
const noting = `
steps:
  - when: {since_user: 1}
    calls: [{tool: glob, input: {pattern: '**'}}]
  - when: {since_user: 2}
    calls: [{tool: write, input: {path: '{{.User}}', content: x}}]
  - text: '{{join " " (lines (result "glob" 0))}}'
`

// openIn opens a session in a workspace, in which agents may edit.
func (c *client) openIn(workspace, text string) string {
	c.t.Helper()
	return c.openWith(workspace, text, pb.PermissionMode_PERMISSION_MODE_ACCEPT_EDITS)
}

func (c *client) openWith(workspace, text string, mode pb.PermissionMode) string {
	c.t.Helper()
	resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
		Message: &pb.UserMessage{Text: text}, Workspace: workspace, Permissions: &pb.Permissions{Mode: mode},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if got := resp.GetSession().GetWorkspace(); got != workspace {
		c.t.Errorf("the session's workspace is %q, want %q", got, workspace)
	}
	return resp.GetSession().GetId()
}

// TestWorkspaces: each session has a directory of its own unless it names one, and what
// one worker has left there the other finds.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	onBoth(t, noting, func(d *deployment) {
		d.workspaces = d.in("work")
		d.write("work/checkout/seen", "")
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		alone, shared := c.openIn("", "one"), c.openIn("checkout", "two")
		for session, want := range map[string]string{alone: "No files found", shared: "seen"} {
			if got := c.doneWith(session); got != want {
				t.Errorf("a session sees %q, want %q", got, want)
			}
		}
		if got := c.doneWith(c.openIn("checkout", "three")); got != "seen two" {
			t.Errorf("who shares it sees %q", got)
		}
		// Turn by turn, on one worker and then on the other.
		want, workers := []string{"one"}, map[string]bool{}
		for i, next := range []string{"a", "b", "c", "d"} {
			d.kill([]string{"worker 1", "worker 2"}[i%2])
			c.hears(alone, next, "")
			if got := c.doneWith(alone); got != strings.Join(slices.Sorted(slices.Values(want)), " ") {
				t.Errorf("turn %s sees %q, want %q", next, got, want)
			}
			want = append(want, next)
			events, _ := c.idle(alone)
			for _, e := range events {
				if w := e.GetDispatched().GetWorkerId(); w != "" {
					workers[w] = true
				}
			}
			d.startWorker([]string{"worker 1", "worker 2"}[i%2])
		}
		if len(workers) < 2 {
			t.Errorf("it was all done by %v", workers)
		}
		if files := below(t, filepath.Join(d.workspaces, alone)); files != "a b c d one" {
			t.Errorf("the directory of the session holds %s", files)
		}
		_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Workspace: "../" + alone})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a workspace that leads out: %v", err)
		}
		c.sound()
	})
}

// below names what is in a directory.
func below(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

const smith = `---
name: smith
description: Changes things.
mode: subagent
tools: [task, write, ls, glob]
isolation: worktree
---
You change things.
`

// smithy is a root that gives what it is told to a smith.
const smithy = `
steps:
  - when: {turn: 1, prompt: 'root: (.*)'}
    calls: [{tool: task, input: {description: d, prompt: '{{group 1}}', subagent_type: smith}}]
  - when: {turn: 1, prompt: nest}
    calls: [{tool: task, input: {description: d, prompt: change, subagent_type: smith}}]
  - when: {prompt: root|nest}
    text: '{{with json (result "task" 0)}}{{.status}}: {{or (get "summary" .) (get "error" .)}}{{end}}'
  - when: {prompt: idle}
    text: nothing
  - when: {turn: 1}
    calls: [{tool: write, input: {path: made, content: x}}]
  - when: {prompt: slow, turn: 2}
    delay: 2s
    calls: [{tool: glob, input: {pattern: '**'}}]
  - when: {prompt: slow}
    text: 'saw {{join " " (lines (result "glob" 0))}}'
  - text: changed
`

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// checkout has an agent, and sessions work in a repository with a commit.
func (d *deployment) checkout(agent, definition string) {
	d.t.Helper()
	d.workspaces = d.in("work")
	d.write("agents/"+agent+".md", definition, "work/checkout/README", "hello")
	d.orchestratorFlags = []string{"--agents-dir", d.in("agents")}
	checkout := d.in("work/checkout")
	git(d.t, checkout, "init", "-q")
	git(d.t, checkout, "add", "-A")
	git(d.t, checkout, "commit", "-q", "-m", "first")
}

// TestWorktrees: a smith works in a worktree of its own; its parent is told where its
// changes are, or why there is no worktree, and of one without changes nothing is left.
func TestWorktrees(t *testing.T) {
	t.Parallel()
	onBoth(t, smithy, func(d *deployment) {
		d.checkout("smith", smith)
	}, func(t *testing.T, d *deployment) {
		c, checkout := d.client(), d.in("work/checkout")
		if got := c.doneWith(c.openIn("checkout", "root: idle")); got != "completed: nothing" {
			t.Errorf("unchanged: %q", got)
		}
		until(t, "what was not changed is removed", func() bool {
			return git(t, checkout, "branch", "--list", "coppice/*") == "" && below(t, filepath.Join(checkout, ".coppice/worktrees")) == ".gitignore"
		})
		if got := c.doneWith(c.openIn("", "root: idle")); !strings.HasPrefix(got, "failed: ") || !strings.Contains(got, "is no git repository") {
			t.Errorf("without a repository: %q", got)
		}

		session := c.openIn("checkout", "root: change")
		got := c.doneWith(session)
		told := c.kept(session, got)
		if _, err := os.Stat(filepath.Join(checkout, told, "made")); err != nil {
			t.Error(err)
		}
		if got := git(t, checkout, "status", "--porcelain"); got != "" {
			t.Errorf("the checkout has changed: %s", got)
		}

		nested := c.openIn("checkout", "root: nest")
		c.doneWith(nested)
		outer := c.kept(nested, "")
		inner, err := filepath.Glob(filepath.Join(checkout, outer, ".coppice/worktrees/*/made"))
		if err != nil || len(inner) != 1 {
			t.Errorf("below %s: %v, %v", outer, inner, err)
		}

		// Everything is killed while it works: it goes on in the same worktree.
		slow := c.openIn("checkout", "root: slow")
		var found []string
		until(t, "the slow one has written", func() bool {
			found, err = filepath.Glob(filepath.Join(checkout, ".coppice/worktrees", c.smith(slow), "made"))
			return err == nil && len(found) == 1
		})
		c = d.killAll()
		got = c.doneWith(slow)
		if c.kept(slow, got); !strings.HasPrefix(got, "completed: saw README made\n") {
			t.Errorf("after the kill: %q", got)
		}
		c.sound()
	})
}

// smith gives the task of a session's sub-agent; none if there is not one yet.
func (c *client) smith(session string) string {
	c.t.Helper()
	for _, task := range c.tasks(session) {
		if task.GetDepth() == 1 {
			return task.GetId()
		}
	}
	return "none"
}

// kept gives where a session's sub-agent has left its worktree, and holds what the root
// was told against it.
func (c *client) kept(session, told string) string {
	c.t.Helper()
	id := c.smith(session)
	if want := "[worktree .coppice/worktrees/" + id + ", branch coppice/" + id + ": changes that are not committed]"; told != "" && !strings.HasSuffix(told, want) {
		c.t.Errorf("the root was told %q, want %q", told, want)
	}
	return ".coppice/worktrees/" + id
}

const starter = `---
name: starter
description: Starts things.
mode: subagent
tools: [bash]
isolation: worktree
max_iterations: 1
---
You start things.
`

const serving = `
steps:
  - when: {prompt: root, turn: 1}
    calls: [{tool: task, input: {description: d, prompt: start, subagent_type: starter}}]
  - when: {prompt: root}
    text: '{{with json (result "task" 0)}}{{.status}}: {{get "error" .}}{{end}}'
  - calls: [{tool: bash, input: {command: 'echo up; while [ ! -e go ]; do sleep 0.02; done; echo made > made; cat README', description: Serve, run_in_background: true}}]
`

// TestWorktreeOfACommand: a command in the background keeps the worktree that it runs in,
// though the agent that has started it has failed.
func TestWorktreeOfACommand(t *testing.T) {
	t.Parallel()
	onBoth(t, serving, func(d *deployment) { d.checkout("starter", starter) }, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.openWith("checkout", "root", pb.PermissionMode_PERMISSION_MODE_BYPASS)
		c.shell(session, "up")
		if got := c.turn(session, 1); !strings.HasPrefix(got, "failed: ") || !strings.HasSuffix(got, ": agents or commands that still work there]") {
			t.Errorf("the root was told %q", got)
		}
		worktree := filepath.Join(d.in("work/checkout/.coppice/worktrees"), c.smith(session))
		if err := os.WriteFile(filepath.Join(worktree, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		until(t, "the command has made its file", func() bool {
			text, err := os.ReadFile(filepath.Join(worktree, "made"))
			return err == nil && string(text) == "made\n"
		})
		c.sound()
	})
}

// TestWorktreeOfAnAnswerThatStands: a sub-agent's child spends the budget in its worktree after it
// has answered. The result names the worktree if there are changes, and none that is gone.
func TestWorktreeOfAnAnswerThatStands(t *testing.T) {
	t.Parallel()
	onBoth(t, `
steps:
  - {when: {depth: 0, prompt: 'root: (.*)'}, calls: [{tool: task, input: {description: d, prompt: '{{group 1}}', subagent_type: smith}}]}
  - {when: {depth: 1, turn: 1, prompt: '(.*)'}, calls: [{tool: task, input: {description: d, prompt: '{{group 1}}', subagent_type: general-purpose, background: true}}]}
  - {when: {depth: 1}, text: The answer is 42.}
  - {when: {depth: 2, prompt: change, turn: 1}, delay: 300ms, calls: [{tool: write, input: {path: made, content: x}}]}
  - {delay: 300ms, text: done}
`, func(d *deployment) { d.checkout("smith", smith) }, func(t *testing.T, d *deployment) {
		c := d.client()
		ends := func(prompt string, calls int64) (session, said string) {
			opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
				Message: &pb.UserMessage{Text: "root: " + prompt}, Workspace: "checkout", Budget: &pb.Budget{ModelCalls: calls},
				Permissions: &pb.Permissions{Mode: pb.PermissionMode_PERMISSION_MODE_ACCEPT_EDITS},
			})
			if err != nil {
				t.Fatal(err)
			}
			session = opened.GetSession().GetId()
			c.idle(session)
			end := c.wait(session, c.smith(session))
			return session, end.GetState().String() + ": " + end.GetResult()
		}
		const stands = "TASK_STATE_COMPLETED: The answer is 42."
		session, said := ends("change", 5)
		if told, is := strings.CutPrefix(said, stands+"\n\n"); !is || told == "" {
			t.Errorf("changed: %q", said)
		}
		if _, err := os.Stat(filepath.Join(d.in("work/checkout"), c.kept(session, said), "made")); err != nil {
			t.Error(err)
		}
		session, said = ends("idle", 4)
		if said != stands {
			t.Errorf("unchanged: %q", said)
		}
		until(t, "what was not changed is removed", func() bool {
			_, err := os.Stat(filepath.Join(d.in("work/checkout"), c.kept(session, "")))
			return os.IsNotExist(err)
		})
		c.sound()
	})
}
