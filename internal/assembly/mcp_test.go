package assembly_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/mcp/mcptest"
)

// greeted is agents that call tools of MCP servers: the root those of both servers,
// and a narrow one what it is allowed of one, beside what is not there.
const greeted = `
steps:
  - when: {prompt: look}
    text: '{{hasTool "ls"}} {{hasTool "mcp__local__greet"}} {{hasTool "mcp__local__die"}} {{hasTool "mcp__web__greet"}}: {{.Reminder}}'
  - when: {prompt: find, turn: 1}
    calls: [{tool: mcp__web__greet, input: {name: early}}, {tool: find_tools, input: {query: 'mcp__web__*'}}]
  - when: {prompt: find, turn: 2}
    calls: [{tool: mcp__web__greet, input: {name: late}}]
  - when: {turn: 1}
    calls: [{tool: mcp__local__greet, input: {name: Ann}}, {tool: mcp__web__greet, input: {name: Bob}}]
  - when: {turn: 2}
    calls: [{tool: mcp__local__die, input: {}}]
  - when: {turn: 3}
    calls: [{tool: mcp__local__greet, input: {name: Cid}}]
  - text: '{{join " | " (results "*")}}'
`

func withMCP(t *testing.T, play func(*testing.T, *deployment)) {
	t.Helper()
	onBoth(t, greeted, func(d *deployment) {
		web := mcptest.Greeter("Hello")
		server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
			if r.Header.Get("X-Key") != "opened sesame" {
				return nil
			}
			return web
		}, nil))
		d.t.Cleanup(func() {
			for name := range maps.Clone(d.processes) {
				d.kill(name)
			}
			server.Close()
			for session := range web.Sessions() {
				_ = session.Close() // of a worker that was killed
			}
		})
		d.environ = map[string][]string{"worker": {"SESAME=opened sesame"}}
		config := fmt.Sprintf(`{"mcpServers": {
			"local": {"command": %q, "env": {"GREETING": "Welcome"}},
			"web": {"url": %q, "headers": {"X-Key": "${SESAME}"}},
			"gone": {"command": "/nowhere/server"}
		}}`, filepath.Join(d.bin, "greeter"), server.URL)
		d.write("mcp.json", config,
			"agents/narrow.md", agent("narrow", "tools: [ls, mcp__local__g*, mcp__gone, mcp__other__x]"),
			"agents/finder.md", agent("finder", "deferred_tools: [mcp__web]"),
			"agents/plain.md", agent("plain", "disallowed_tools: [mcp__*]"))
		d.orchestratorFlags = []string{"--agents-dir", d.in("agents")}
		d.workerFlags = []string{"--mcp-config", d.in("mcp.json"), "--sandbox-readable", d.bin}
	}, play)
}

func agent(name, more string) string {
	return "---\nname: " + name + "\ndescription: for tests\nmode: both\n" + more + "\n---\n\nYou are a test.\n"
}

// asAgent opens a session with an agent.
func (c *client) asAgent(name, text string, p *pb.Permissions) string {
	c.t.Helper()
	resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
		Agent: name, Message: &pb.UserMessage{Text: text}, Permissions: p,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetSession().GetId()
}

// TestMCP calls tools of a server that is a process and of one on the web: a rule allows
// the one, a person is asked about the other, and a server that dies is back.
func TestMCP(t *testing.T) {
	t.Parallel()
	withMCP(t, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.openAs("greet", "", &pb.Permissions{Allow: []string{"mcp__local"}})
		asked := c.blocked(session)
		if len(asked) != 1 || asked[0].GetTool() != "mcp__web__greet" || asked[0].GetArgument() != `{"name":"Bob"}` {
			t.Fatalf("asked about %v", asked)
		}
		c.decide(&pb.DecideApprovalRequest{ApprovalId: asked[0].GetId(), Decision: pb.Decision_DECISION_ALLOW})
		got := strings.Split(c.doneWith(session), " | ")
		if len(got) != 4 || got[0] != "Welcome, Ann" || got[1] != "Hello, Bob" || !strings.Contains(got[2], "the MCP server local was lost during the call") || got[3] != "Welcome, Cid" {
			t.Errorf("%q", got)
		}
	})
}

// TestMCPAmongSessions: where each session has a directory of its own a server does not see
// them, unless it is told to work there.
func TestMCPAmongSessions(t *testing.T) {
	t.Parallel()
	onBoth(t, greeted, func(d *deployment) {
		d.workspaces = d.in("work")
		d.write("work/checkout/seen", "", "tmp/other", "")
		d.environ = map[string][]string{"worker": {"TMPDIR=" + d.in("tmp")}}
		server := func(cwd string) string {
			script := fmt.Sprintf(`GREETING="$(echo %s/*)" exec %s`, d.workspaces, filepath.Join(d.bin, "greeter"))
			return fmt.Sprintf(`{"command": "/bin/sh", "args": ["-c", %q]%s}`, script, cwd)
		}
		d.write("mcp.json", fmt.Sprintf(`{"mcpServers": {"local": %s, "web": %s}}`, server(""), server(`, "cwd": "."`)))
		d.workerFlags = []string{"--mcp-config", d.in("mcp.json"), "--sandbox-readable", d.bin}
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		got := strings.Split(c.doneWith(c.openAs("greet", "", &pb.Permissions{Allow: []string{"mcp__*"}})), " | ")
		if len(got) != 4 || got[0] != d.workspaces+"/*, Ann" || !strings.Contains(got[1], d.workspaces+"/checkout") {
			t.Errorf("%q", got)
		}
	})
}

// TestMCPAllowLists: what an agent is handed of MCP servers is what its definition
// says, and it is told what is not there.
func TestMCPAllowLists(t *testing.T) {
	t.Parallel()
	withMCP(t, func(t *testing.T, d *deployment) {
		c := d.client()
		note := "Tools that you would have are missing at present:\n- mcp__gone__*: the MCP server can't be reached\n"
		for name, want := range map[string]string{
			"narrow":          "true true false false: " + note + "- mcp__other__x: no MCP server has it\n",
			"general-purpose": "true true true true: " + note + "Do what",
			"plain":           "true false false false: ",
			"plan":            "true false false false: ",
			"finder":          "true true true false: " + note,
		} {
			session := c.asAgent("general-purpose", "look", nil)
			task := ""
			if name != "general-purpose" {
				c.doneWith(session)
				task = c.spawnAgent(session, name, "", "look").GetId()
			}
			if got := c.wait(session, task).GetResult(); !strings.HasPrefix(got, want) || want[len(want)-2:] == ": " && got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		all := &pb.Permissions{Mode: pb.PermissionMode_PERMISSION_MODE_BYPASS}
		got := c.doneWith(c.asAgent("finder", "find", all))
		if !strings.Contains(got, `"mcp__web__greet" has to be found before it can be called`) || !strings.Contains(got, "| Hello, late |") {
			t.Errorf("found and called: %q", got)
		}
	})
}
