package loop_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// shell is a tool that would run commands, and remembers which.
type shell struct {
	mu  *sync.Mutex
	ran *[]string
}

func (shell) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "bash", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (shell) Effect() tool.Effect { return tool.EffectLasting }

func (shell) Guard() tool.Guard {
	return tool.Guard{Kind: policy.KindCommand, Arguments: func(c tool.Call) []string { return []string{command(c)} }}
}

func command(c tool.Call) string {
	var in struct{ Command string }
	if json.Unmarshal(c.Input, &in) != nil {
		return ""
	}
	return in.Command
}

func (s shell) Call(_ context.Context, c tool.Call) tool.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.ran = append(*s.ran, command(c))
	return tool.Done{Text: "ran " + command(c)}
}

// works calls the shell, then a child that does the same, then says what came of it.
func works(req *model.Request) (*model.Answer, error) {
	run := func(line string) tree.ToolUse { return use("bash", map[string]any{"command": line}) }
	switch {
	case turn(req) == 0:
		return calls(run("git log"), run("make"), run("git log; rm x"), run("rm y"))
	case turn(req) == 1 && req.Depth == 0:
		return calls(task("child", nil))
	}
	return says("done")
}

// TestApprovedCallsRunOnce loses the worker at every request, before and after it
// is stored: what is approved runs, what is not never does, and nobody is asked twice.
func TestApprovedCallsRunOnce(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		before := approve(t, func(i int) (before, after bool) { return i == n, false })
		after := approve(t, func(i int) (before, after bool) { return false, i == n })
		if t.Failed() {
			t.Fatalf("lost at request %d", n)
		}
		if n > max(before, after) {
			return
		}
	}
}

// approve runs it all, deciding what is asked, and gives the number of requests.
func approve(t *testing.T, lose func(int) (bool, bool)) int {
	t.Helper()
	var ran []string
	c := newCore(t, answers(works), shell{&sync.Mutex{}, &ran})
	c.lose = lose
	parsed, err := policy.ParseRules([]string{"bash(git *)", "bash(rm y)"})
	if err != nil {
		t.Fatal(err)
	}
	c.must(tree.CreateSession{
		ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
		Message: []tree.Block{tree.Text{Text: "go"}}, Permissions: policy.Layer{Allow: parsed[:1], Deny: parsed[1:]},
		Approvals: policy.ApprovalsDeny,
	})
	c.play(t.Context())
	asked := 0
	for _, a := range c.view.Changes().Approvals {
		asked++
		c.must(tree.DecideApproval{ID: a.ID, Allow: a.Argument == "make", Message: "better not"})
	}
	c.play(t.Context())
	if asked != 2 || len(c.view.Changes().Approvals) != 2 {
		t.Errorf("%d questions, then %d", asked, len(c.view.Changes().Approvals))
	}
	most := map[string]int{"git log": 2, "make": 1} // the child has looked too
	for _, line := range ran {
		if most[line]--; most[line] < 0 {
			t.Errorf("ran %q", ran)
		}
	}
	said := c.say()
	for _, want := range []string{
		"root: completed", "root/child: completed", "APPROVAL_DENIED: better not", "PERMISSION_DENIED: the rule bash(rm y) denies it",
		"APPROVAL_DENIED: the mode asks, and a sub-agent has nobody to ask",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if !strings.Contains(said, "ran make") && !strings.Contains(said, "outcome unknown") {
		t.Errorf("what was approved did not run:\n%s", said)
	}
	return c.requests
}

// TestWrongInputIsNotAskedAbout: a call that its tool would refuse is answered at once, unless a
// rule denies it.
func TestWrongInputIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	ask, err := policy.ParseRules([]string{"write", "edit", "web_fetch"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		layer policy.Layer
		want  []string
	}{
		"a rule asks":   {policy.Layer{Ask: ask}, []string{"wrong input: path: missing", "wrong input: old_string: missing", "wrong input: url: missing"}},
		"a rule denies": {policy.Layer{Deny: ask}, []string{"PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED"}},
	} {
		var heard []string
		run := aRun(t, answers(func(req *model.Request) (*model.Answer, error) {
			if turn(req) == 0 {
				return calls(
					use("write", map[string]any{"file_path": "out.txt", "content": "hi"}),
					use("edit", map[string]any{"path": "a", "old": "b", "new_string": "c"}),
					use("web_fetch", map[string]any{"uri": "https://example.com/"}),
				)
			}
			for _, b := range req.Messages[len(req.Messages)-1].Blocks {
				heard = append(heard, b.(tree.ToolResult).Text)
			}
			return says("done")
		}), append(tool.Builtin(), tool.NewWebFetch(outbound.Destinations{})))
		run.Authority = policy.RootAuthority(c.layer, policy.Permissions{}, false)
		if outcome, err := run.Do(t.Context()); err != nil || outcome != loop.Ended {
			t.Errorf("%s: %v, %v", name, outcome, err)
		}
		if !slices.EqualFunc(heard, c.want, strings.HasPrefix) {
			t.Errorf("%s: the model heard %q", name, heard)
		}
	}
}

// TestRedirectsAreJudged: where an allowed call leads is held against the permissions of the run.
func TestRedirectsAreJudged(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/private/x" {
			t.Error("what is denied was fetched")
		}
		http.Redirect(w, r, "/private/x", http.StatusFound)
	}))
	t.Cleanup(server.Close)
	here, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.ParseRules([]string{"web_fetch(" + server.URL + "/docs/*)", "web_fetch(" + server.URL + "/private/*)"})
	if err != nil {
		t.Fatal(err)
	}
	heard := ""
	run := aRun(t, answers(func(req *model.Request) (*model.Answer, error) {
		if turn(req) == 0 {
			return calls(use("web_fetch", map[string]any{"url": server.URL + "/docs/a"}))
		}
		last := req.Messages[len(req.Messages)-1]
		heard = last.Blocks[0].(tree.ToolResult).Text
		return says("done")
	}), []tool.Tool{tool.NewWebFetch(here)})
	run.Authority = policy.RootAuthority(policy.Layer{Allow: parsed[:1], Deny: parsed[1:]}, policy.Permissions{}, false)
	if outcome, err := run.Do(t.Context()); err != nil || outcome != loop.Ended {
		t.Errorf("%v, %v", outcome, err)
	}
	if !strings.Contains(heard, "not followed: "+server.URL+"/private/x") {
		t.Errorf("the model heard %q", heard)
	}
}

// TestHiddenToolsAreNotOffered looks at what models are told of.
func TestHiddenToolsAreNotOffered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		authority policy.Authority
		source    string
		want      string
	}{
		"all":          {"", "", "bash edit glob grep kill_task ls read task task_output write"},
		"from outside": {"", "mcp", "bash edit glob grep ls read write"},
		"plan":         {policy.RootAuthority(policy.Layer{Mode: policy.ModePlan}, policy.Permissions{}, false), "", "glob grep kill_task ls read task task_output"},
		"in the background": {
			policy.ChildAuthority(policy.Permissions{Background: []string{"read", "bash"}}.Pin(), true, ""), "", "bash read",
		},
	} {
		offered := ""
		m := answers(func(req *model.Request) (*model.Answer, error) {
			var names []string
			for _, s := range req.Tools {
				names = append(names, s.Name)
			}
			slices.Sort(names)
			offered = strings.Join(names, " ")
			return says("done")
		})
		run := aRun(t, m, append(tool.Builtin(), shell{}, tool.NewTask([]tool.Spawnable{{Name: "scout"}})))
		run.Authority, run.Source = c.authority, c.source
		if outcome, err := run.Do(t.Context()); err != nil || outcome != loop.Ended {
			t.Errorf("%s: %v, %v", name, outcome, err)
		}
		if offered != c.want {
			t.Errorf("%s: offered %s, want %s", name, offered, c.want)
		}
	}
}

// TestWhatComesFromOutsideTurnsTheRun that takes it in: from then on the model is told of no
// internal tool, also where the orchestrator says more after a message.
func TestWhatComesFromOutsideTurnsTheRun(t *testing.T) {
	t.Parallel()
	message := tree.Send{Message: []tree.Block{tree.Text{Text: "from outside"}}, Source: "mcp"}
	for name, turns := range map[string]func(c *core) tree.ToolUse{
		"a message with a result": func(c *core) tree.ToolUse {
			c.must(message)
			return use("ls", nil)
		},
		"a message with a wait that is over at once": func(c *core) tree.ToolUse {
			c.must(message)
			return use("task_output", map[string]any{"task_id": tree.TaskID{1}.String(), "block": true})
		},
		"the output of a task from outside": func(c *core) tree.ToolUse {
			child := tree.Child{Agent: c.agents["scout"], AgentName: "scout", Prompt: "look"}
			task := c.must(tree.SpawnTask{Child: child, Source: "mcp"}).(tree.Spawned).Task
			return use("task_output", map[string]any{"task_id": task.String(), "block": false})
		},
	} {
		var c *core
		var offered []string
		run := aRun(t, answers(func(req *model.Request) (*model.Answer, error) {
			if turn(req) == 0 {
				return calls(turns(c))
			}
			for _, s := range req.Tools {
				offered = append(offered, s.Name)
			}
			return says("done")
		}), tool.Builtin())
		c = run.Journal.(*journal).core
		if outcome, err := run.Do(t.Context()); err != nil || outcome != loop.Ended {
			t.Errorf("%s: %v, %v", name, outcome, err)
		}
		if run.Source != "mcp" || len(offered) == 0 || slices.Contains(offered, "task_output") {
			t.Errorf("%s: the run is on behalf of %q, and is offered %q", name, run.Source, offered)
		}
	}
}

// aRun is the first run of a session's root, claimed.
func aRun(t *testing.T, m model.Model, tools []tool.Tool) *loop.Run {
	t.Helper()
	c := newCore(t, m)
	root := c.must(tree.CreateSession{
		ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
		Message: []tree.Block{tree.Text{Text: "go"}},
	}).(tree.Created).Root
	token := tree.Token{Epoch: 1, Nonce: 1}
	claimed := c.must(tree.Claim{Task: root, Token: token, Worker: "w"}).(*tree.Claimed).Task
	return &loop.Run{
		Session: claimed.Session, Task: root, Agent: "root", Transcript: c.transcript(root), MaxIterations: 10,
		MaxPartBytes: 1 << 20, Model: m, Tools: tools, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Journal: &journal{core: c, from: tree.From{Task: root, Token: token, Attach: claimed.Attach}, seen: claimed.NextOrdinal - 1},
	}
}
