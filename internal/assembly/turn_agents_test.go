package assembly_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tool"
)

// withAgents plays on both databases with files that are there before anything
// starts.
func withAgents(t *testing.T, scenario string, files []string, play func(t *testing.T, d *deployment)) {
	onBoth(t, scenario, func(d *deployment) {
		d.write(files...)
		d.orchestratorFlags = []string{"--agents-dir", d.in("agents"), "--plugins-dir", d.in("plugins"), "--models", d.in("models.yaml")}
		d.workerFlags = []string{"--skills-dir", d.in("skills"), "--plugins-dir", d.in("plugins")}
	}, play)
}

// at is a client of one orchestrator alone.
func (d *deployment) at(i int) *client {
	d.t.Helper()
	conn, err := assembly.Connect(d.addresses[i%len(d.addresses)])
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	c := newClient(d.t, conn)
	if _, err := c.ListAgents(c.ctx(), &pb.ListAgentsRequest{}); err != nil {
		d.t.Fatal(err)
	}
	return c
}

// spawn starts a sub-agent below the root.
func (c *client) spawnAgent(session, agent, model, prompt string) *pb.Task {
	c.t.Helper()
	resp, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: agent, Model: model, Prompt: prompt})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetTask()
}

// says holds the answer of a task against what it should be.
func (c *client) says(session, task, want string) {
	c.t.Helper()
	if got := c.wait(session, task).GetResult(); got != want {
		c.t.Errorf("the task says %q, want %q", got, want)
	}
}

func (c *client) put(definition string) *pb.Agent {
	c.t.Helper()
	resp, err := c.PutAgent(c.ctx(), &pb.PutAgentRequest{Definition: definition})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetAgent()
}

// until asks again and again until it is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for give := time.After(patience); !so(); {
		select {
		case <-tick.C:
		case <-give:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// poet is an agent whose reminder tells its versions apart.
func poet(reminder string) string {
	return "---\nname: poet\ndescription: For verses.\nmode: both\nmodel: quick\nreminder: " + reminder + "\n---\nYou write verses."
}

const houseModels = `
models:
  - {name: quick, provider: acme, model: q-1}
  - {name: deep, provider: acme, model: d-9}
`

// telling says who one is, with which model and reminder.
const telling = `
steps:
  - when: {depth: 0, prompt: ask, turn: '2..'}
    text: '{{(result "task" 0).IsError}}: {{result "task" 0}} / {{(json (result "task" 1)).summary}}'
  - when: {depth: 0, prompt: ask}
    calls:
      - {tool: task, input: {description: d, prompt: hello, subagent_type: poet, model: nonsense}}
      - {tool: task, input: {description: d, prompt: hello, subagent_type: plan}}
  - when: {prompt: slow, since_user: 1}
    delay: 3s
    text: '{{.Agent}} {{.Provider}}/{{.Model}} {{.Reminder}}'
  - text: '{{.Agent}} {{.Provider}}/{{.Model}} {{.Reminder}}'
`

// TestAgentsOfAllSources: files are followed, what was put counts on all replicas at
// once, and a task keeps the version and the model that it started with, also when
// everything is killed meanwhile.
func TestAgentsOfAllSources(t *testing.T) {
	t.Parallel()
	files := []string{
		"agents/poet.md", poet("one"), "models.yaml", houseModels, "skills/none", "",
		"plugins/tools/agents/smith.md", "---\nname: smith\ndescription: For iron.\nmode: subagent\nmodel: acme/s-5\n---\nYou forge.",
	}
	withAgents(t, telling, files, func(t *testing.T, d *deployment) {
		first, last := d.at(0), d.at(1)
		resp, err := first.CreateSession(first.ctx(), &pb.CreateSessionRequest{Model: "deep", Message: &pb.UserMessage{Text: "ask"}})
		if err != nil {
			t.Fatal(err)
		}
		session := resp.GetSession().GetId()
		if got := first.wait(session, "").GetResult(); !strings.HasPrefix(got, "true: no such model: nonsense; there are quick, deep, inherit") ||
			!strings.HasSuffix(got, "/ plan acme/d-9 ") {
			t.Errorf("the root says %q", got)
		}
		if _, err := first.SpawnTask(first.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "poet", Model: "nonsense", Prompt: "x"}); status.Code(err) != codes.NotFound {
			t.Errorf("a model that nobody knows: %v", err)
		}
		one := first.spawnAgent(session, "poet", "", "hello")
		if one.GetModelProvider() != "acme" || one.GetModelName() != "q-1" {
			t.Errorf("the task has pinned %s/%s", one.GetModelProvider(), one.GetModelName())
		}
		first.says(session, one.GetId(), "poet acme/q-1 one")
		first.says(session, first.spawnAgent(session, "poet", "inherit", "hello").GetId(), "poet acme/d-9 one")
		first.says(session, first.spawnAgent(session, "tools:smith", "", "hello").GetId(), "tools:smith acme/s-5 ")

		// Files are followed; one that breaks keeps what it was.
		d.write("agents/poet.md", poet("two"))
		for _, c := range []*client{first, last} {
			until(t, "the changed file counts", func() bool { return c.agent("poet").GetReminder() == "two" })
		}
		first.says(session, last.spawnAgent(session, "poet", "", "hello").GetId(), "poet acme/q-1 two")
		d.write("agents/poet.md", "broken")
		until(t, "the broken file is reported", func() bool {
			list, err := first.ListAgents(first.ctx(), &pb.ListAgentsRequest{})
			return err == nil && len(list.GetProblems()) == 1 && list.GetProblems()[0].GetKept() &&
				strings.Contains(list.GetProblems()[0].GetDetail(), "poet.md:1: expected")
		})
		first.says(session, last.spawnAgent(session, "poet", "", "hello").GetId(), "poet acme/q-1 two")

		// What is put counts at once, everywhere, and so does its end.
		for i, reminder := range []string{"three", "four", "three"} {
			version := d.at(i).put(poet(reminder)).GetVersion()
			other := d.at(i + 1)
			other.opensWith("poet", "poet acme/q-1 "+reminder) // which has read what counts for others before
			if shown := other.agent("poet"); shown.GetVersion() != version || shown.GetSource() != "api" {
				t.Errorf("the other replica has %s of %s", shown.GetVersion(), shown.GetSource())
			}
			other.says(session, other.spawnAgent(session, "poet", "", "hello").GetId(), "poet acme/q-1 "+reminder)
		}
		if _, err := first.DeleteAgent(first.ctx(), &pb.DeleteAgentRequest{Name: "poet"}); err != nil {
			t.Fatal(err)
		}
		last.opensWith("poet", "poet acme/q-1 two")
		last.says(session, last.spawnAgent(session, "poet", "", "hello").GetId(), "poet acme/q-1 two")
		if _, err := last.DeleteAgent(last.ctx(), &pb.DeleteAgentRequest{Name: "poet"}); status.Code(err) != codes.NotFound {
			t.Errorf("deleted twice: %v", err)
		}
		d.pinnedThroughACrash(session, one.GetId())
	})
}

// pinnedThroughACrash kills everything while a task runs whose agent is another one by
// then, and goes on with a task whose agent's version is long gone.
func (d *deployment) pinnedThroughACrash(session, old string) {
	t := d.t
	d.at(0).put(poet("five"))
	slow := d.at(1).spawnAgent(session, "poet", "", "slow").GetId()
	d.at(0).events(session, func(e *pb.Event) bool { return e.GetDispatched() != nil && e.GetTaskId() == slow })
	d.at(0).put(poet("six"))
	d.killAll()
	c := d.at(1)
	c.says(session, slow, "poet acme/q-1 five")
	c.says(session, c.spawnAgent(session, "poet", "", "hello").GetId(), "poet acme/q-1 six")
	if _, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, TaskId: old, Message: &pb.UserMessage{Text: "again"}}); err != nil {
		t.Fatal(err)
	}
	c.says(session, old, "poet acme/q-1 one")
	resp, err := c.GetAgent(c.ctx(), &pb.GetAgentRequest{Name: "poet"})
	if err != nil || len(resp.GetVersions()) != 4 || resp.GetVersions()[0].GetVersion() != resp.GetAgent().GetVersion() {
		t.Errorf("the versions are %v, %v", resp.GetVersions(), err)
	}
	c.sound()
}

// opensWith opens a session with an agent that has to say something.
func (c *client) opensWith(agent, want string) {
	c.t.Helper()
	resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Agent: agent, Message: &pb.UserMessage{Text: "hello"}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.says(resp.GetSession().GetId(), "", want)
}

func (c *client) agent(name string) *pb.Agent {
	c.t.Helper()
	resp, err := c.GetAgent(c.ctx(), &pb.GetAgentRequest{Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetAgent()
}

// finding is an agent that has to look for a tool, and for a while does nothing once
// it has found it.
const finding = `
steps:
  - when: {turn: 1, if: 'not (hasTool "grep")'}
    calls: [{tool: grep, input: {pattern: needle}}, {tool: find_tools, input: {query: search in files}}]
  - when: {turn: 2, if: 'hasTool "grep"'}
    delay: 2s
    calls: [{tool: grep, input: {pattern: needle, path: hay}}]
  - when: {turn: 3, if: 'hasTool "grep"'}
    text: '{{(index (allResults "grep") 0).IsError}} {{result "grep" 1}}'
`

// TestToolsAreFoundAgain kills everything once a tool has been found.
func TestToolsAreFoundAgain(t *testing.T) {
	t.Parallel()
	files := []string{
		"agents/finder.md", "---\nname: finder\ndescription: Finds.\nmode: primary\ntools: [ls, grep, read]\ndeferred_tools: [grep]\n---\nYou find.",
		"hay/stack.txt", "a needle\n", "models.yaml", houseModels, "skills/none", "", "plugins/none", "",
	}
	withAgents(t, finding, files, func(t *testing.T, d *deployment) {
		c := d.at(0)
		resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Agent: "finder", Message: &pb.UserMessage{Text: "go"}})
		if err != nil {
			t.Fatal(err)
		}
		session := resp.GetSession().GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetMessage().GetRole() == pb.Role_ROLE_TOOL })
		d.killAll()
		c = d.at(1)
		c.says(session, "", "true hay/stack.txt")
		c.sound()
	})
}

// loading is a root and a sub-agent that load skills; the root takes its time after
// the first.
const loading = `
steps:
  - when: {turn: 1}
    calls: [{tool: skill, input: {name: release}}, {tool: skill, input: {name: nowhere}}]
  - when: {turn: 2, depth: 0}
    delay: 2s
    calls:
      - {tool: skill, input: {name: release, file: ../../secret}}
      - {tool: skill, input: {name: house}}
      - {tool: skill, input: {name: 'tools:forge', file: heat.md}}
      - {tool: task, input: {description: d, prompt: hello, subagent_type: explore}}
      - {tool: task, input: {description: d, prompt: hello, subagent_type: general-purpose}}
  - {text: '{{range allResults "*"}}[{{if .IsError}}(error) {{end}}{{.Text}}]{{end}}'}
`

// TestSkillsAreLoaded kills everything between two skills.
func TestSkillsAreLoaded(t *testing.T) {
	t.Parallel()
	skill := func(name, text string) string {
		return fmt.Sprintf("---\nname: %s\ndescription: Of use for %s.\n---\n%s", name, name, text)
	}
	files := []string{
		".coppice/skills/release/SKILL.md", skill("release", "Tag it."), ".coppice/secret", "secret",
		".claude/skills/release/SKILL.md", skill("release", "Never."),
		"skills/house/SKILL.md", skill("house", "Wipe your feet."),
		"plugins/tools/skills/forge/SKILL.md", skill("forge", "Hit it."), "plugins/tools/skills/forge/heat.md", "First heat it.",
		"agents/none", "", "models.yaml", houseModels,
	}
	withAgents(t, loading, files, func(t *testing.T, d *deployment) {
		c := d.at(0)
		session := c.create("go").GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetMessage().GetRole() == pb.Role_ROLE_TOOL })
		d.killAll()
		c = d.at(1)
		got := c.wait(session, "").GetResult()
		for _, want := range []string{
			"[Skill release\n\nTag it.]", `[(error) there is no skill "nowhere"; there are: release, house, tools:forge]`,
			`leads out of the skill's folder]`, "[Skill house\n\nWipe your feet.]", "[First heat it.]",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %s", want, got)
			}
		}
		if n := strings.Count(got, "Tag it."); n != 2 {
			t.Errorf("%d agents have loaded the skill, want the root and the one that may: %s", n, got)
		}
		c.sound()
	})
}

// TestTheGuideReadsTheDocuments: the guide has them, and nobody else.
func TestTheGuideReadsTheDocuments(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {agent: guide, turn: 1}
    calls: [{tool: docs, input: {}}, {tool: docs, input: {search: disallowed_tools}}]
  - when: {agent: guide}
    text: '{{hasTool "read"}} {{.Last}}'
  - text: '{{hasTool "docs"}}'
`, nil)
	session := c.create("go").GetId()
	c.says(session, "", "false")
	got := c.wait(session, c.spawnAgent(session, "guide", "", "How do I define an agent?").GetId()).GetResult()
	for _, want := range []string{"false ", "docs/agents.md: ", "README.md: Coppice", "proto/coppice/v1/session.proto: ", "docs/agents.md:"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// TestAnAgentRunsInTheBackgroundByItself, unless the call says otherwise.
func TestAnAgentRunsInTheBackgroundByItself(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {depth: 0, turn: 1, prompt: go}
    calls:
      - {tool: task, input: {description: d, prompt: hello, subagent_type: watcher}}
      - {tool: task, input: {description: d, prompt: hello, subagent_type: watcher, run_in_background: false}}
  - when: {depth: 0, prompt: go}
    text: '{{match "async_launched" (index (allResults "task") 0)}} {{(json (index (allResults "task") 1)).summary}}'
  - text: seen
`, nil)
	c.put("---\nname: watcher\ndescription: Watches.\nmode: subagent\nbackground: true\n---\nYou watch.")
	session := c.create("go").GetId()
	c.says(session, "", "true seen")
}

// TestWrongDefinitionsAreRefused, each with its line.
// TestWorkersHaveAllToolsThatComeWithCoppice: an agent that names them runs.
func TestWorkersHaveAllToolsThatComeWithCoppice(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{text: ready}]`, nil)
	c.put("---\nname: handy\ndescription: d\nmode: both\ntools: [" + strings.Join(tool.Names(), ", ") + "]\n---\np")
	resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Agent: "handy", Message: &pb.UserMessage{Text: "go"}})
	if err != nil {
		t.Fatal(err)
	}
	c.says(resp.GetSession().GetId(), "", "ready")
}

func TestWrongDefinitionsAreRefused(t *testing.T) {
	t.Parallel()
	c := setup(t, "steps: [{text: done}]", nil)
	for definition, want := range map[string]string{
		"":                 `definition:1: expected "---"`,
		poet("x") + "\x00": "definition:8: expected text without NUL",
		strings.Replace(poet("x"), "poet", "tools:poet", 1):                      `name: "tools:poet" has a colon`,
		strings.Replace(poet("x"), "mode: both", "modes: both", 1):               "definition:4: unknown key modes",
		strings.Replace(poet("x"), "mode: both", "mode: all", 1):                 "definition:4: mode: expected primary, subagent or both",
		strings.Replace(poet("x"), "mode: both", "background: 1", 1):             "definition:4: background: expected true or false",
		strings.Replace(poet("x"), "You write", strings.Repeat("x", 300<<10), 1): "definition:1: expected at most 262144 bytes",
	} {
		_, err := c.PutAgent(c.ctx(), &pb.PutAgentRequest{Definition: definition})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), want) {
			t.Errorf("%.60q: %v, want %s", definition, err, want)
		}
	}
	session := c.create("go").GetId()
	for agent, want := range map[string]codes.Code{"poet": codes.NotFound, "": codes.InvalidArgument} {
		if _, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: agent, Prompt: "x"}); status.Code(err) != want {
			t.Errorf("spawning %q: %v", agent, err)
		}
	}
	if _, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Model: "nonsense"}); status.Code(err) != codes.NotFound {
		t.Errorf("a session with a model that nobody knows: %v", err)
	}
	if _, err := c.GetAgent(c.ctx(), &pb.GetAgentRequest{Name: "plan", Version: "0"}); status.Code(err) != codes.NotFound {
		t.Errorf("a version that was never put: %v", err)
	}
}
