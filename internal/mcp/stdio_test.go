package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "greets"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			k := keep(t, quick(), stdio(kind))
			if got := k.call("echo", `{"b": [1, 12345678901234567890], "a": "<x>", "a": "y"}`); got.IsError || got.Text != `{"a":"y","b":[1,12345678901234567890]}` {
				t.Errorf("echo: %+v", got)
			}
			if got := k.call("echo", ""); got.IsError || got.Text != "{}" {
				t.Errorf("echo without input: %+v", got)
			}
			for _, bad := range []string{"[]", "null", "{", "{} {}", `"x"`} {
				if got := k.call("echo", bad); !got.IsError || !strings.Contains(got.Text, "JSON object") {
					t.Errorf("the input %s: %+v", bad, got)
				}
			}
			if got := k.call("fail", "{}"); !got.IsError || !strings.HasPrefix(got.Text, "it went wrong") {
				t.Errorf("fail: %+v", got)
			}
			if got := k.call("refuse", "{}"); !got.IsError || !strings.Contains(got.Text, "refused for") {
				t.Errorf("refuse: %+v", got)
			}
			if got := k.call("huge", "{}"); got.IsError || len(got.Text) > 30_000 || !strings.HasPrefix(got.Text, "begin\n") ||
				!strings.HasSuffix(got.Text, "\nend") || !strings.Contains(got.Text, "bytes in the middle are not shown") {
				t.Errorf("huge: %d bytes, %.50s … %s", len(got.Text), got.Text, got.Text[len(got.Text)-50:])
			}
			if kind == "greets" {
				k.logged(`stream=stdout text="Welcome to the server!"`)
			}
		})
	}
}

// What a tool may do is what it is taken for: anything, unless the operator takes the
// server at its word.
func TestTrust(t *testing.T) {
	t.Parallel()
	trusted := stdio("plain")
	trusted.Name, trusted.TrustAnnotations, trusted.Tools = "t", true, []string{"gr*", "echo"}
	k := keep(t, quick(), stdio("plain"), trusted)
	for name, want := range map[string]tool.Effect{
		"mcp__s__grow": tool.EffectLasting, "mcp__t__grow": tool.EffectNone, "mcp__t__echo": tool.EffectLasting,
	} {
		found := k.tool(name)
		access := policy.AccessOther
		if want == tool.EffectNone {
			access = policy.AccessRead
		}
		if got := tool.GuardOf(found); found.Effect() != want || got.Access != access || got.Internal {
			t.Errorf("%s: effect %d, %+v", name, found.Effect(), got)
		}
	}
	tools, missing := k.Tools(context.Background(), func(entry string) bool { return policy.EntriesOverlap(entry, "mcp__t") })
	if len(tools) != 2 || missing != nil {
		t.Errorf("of the tools that are allowed there are %d, missing %v", len(tools), missing)
	}
	verdict, argument := tool.Judge(policy.Authority("").Open(), k.tool("mcp__s__grow"), tool.Call{Input: json.RawMessage(`{"b":1,"a":2}`)})
	if verdict.Decision != policy.Ask || argument != `{"a":2,"b":1}` {
		t.Errorf("%+v about %s", verdict, argument)
	}
}

// A server's error is its answer to one call, also with a code that the SDK has a
// meaning of its own for.
func TestAnswersOnce(t *testing.T) {
	t.Parallel()
	quicker := quick()
	quicker.back = 200 * time.Millisecond
	for _, how := range []string{"stdio", "HTTP", "HTTP with a status"} {
		for _, code := range []int{-32000, -32003, -32004, -32005} {
			t.Run(fmt.Sprint(how, code), func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				s := stdio("plain")
				if how != "stdio" {
					server := newTestServer()
					addRaw(server, &sdk.Tool{Name: "code"}, coded(func() { calls.Add(1) }))
					s = web(overHTTP(t, server, func(w http.ResponseWriter, r *http.Request) bool {
						body, err := io.ReadAll(r.Body)
						if err != nil {
							t.Error(err)
						}
						r.Body = io.NopCloser(bytes.NewReader(body))
						if how == "HTTP" || !bytes.Contains(body, []byte(`"tools/call"`)) {
							return false
						}
						calls.Add(1)
						w.WriteHeader(http.StatusUnprocessableEntity)
						fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"no seats are left"}}`, code)
						return true
					}).URL)
				}
				k := keep(t, quicker, s)
				got := k.call("code", fmt.Sprintf(`{"code":%d}`, code))
				said := "the MCP server s answered with an error: "
				if how == "HTTP with a status" && code == codeRejected {
					said = "the MCP server s did not take the call: "
				}
				if !got.IsError || !strings.HasPrefix(got.Text, said) || !strings.Contains(got.Text, "no seats are left") ||
					strings.Contains(got.Text, sdk.ErrConnectionClosed.Error()) {
					t.Errorf("%+v", got)
				}
				k.stop()
				if how == "stdio" {
					calls.Store(int64(strings.Count(k.log.String(), "called with a code")))
				}
				if n := calls.Load(); n != 1 {
					t.Errorf("it was called %d times", n)
				}
				if n := strings.Count(k.log.String(), "an MCP server is connected"); n != 1 {
					t.Errorf("it was connected to %d times", n)
				}
			})
		}
	}
}

// A server that dies ends the call and is back for the next one.
func TestDies(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"die", "close", "flood"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			k := keepIn(t, sandbox.Off, quick(), stdio("plain"))
			before := k.call("pid", "{}")
			got := k.call(how, "{}")
			if !got.IsError || !strings.Contains(got.Text, "the connection to the MCP server s was lost during the call, which may have had its effect") ||
				how == "die" && !strings.Contains(got.Text, "exit status 7") || how == "flood" && !strings.Contains(got.Text, "a line of more than") {
				t.Errorf("%s: %+v", how, got)
			}
			after := k.call("pid", "{}")
			if after.IsError || after.Text == before.Text {
				t.Errorf("the process was %+v and is %+v", before, after)
			}
		})
	}
}

// A call that gets no answer is given up, and its server told so.
func TestHangs(t *testing.T) {
	t.Parallel()
	s := stdio("plain")
	s.Timeout = 300 * time.Millisecond
	k := keep(t, quick(), s)
	if got := k.call("until_cancelled", "{}"); !got.IsError || !strings.Contains(got.Text, "the MCP server s gave no answer within 300ms") {
		t.Errorf("until_cancelled: %+v", got)
	}
	k.logged("cancelled it is")

	k = keep(t, quick(), stdio("plain"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan tool.Outcome)
	go func() { done <- k.tool("mcp__s__until_cancelled").Call(ctx, tool.Call{}) }()
	k.logged("waiting")
	cancel()
	if got := (<-done).(tool.Done); !got.IsError || !strings.Contains(got.Text, "the call was cancelled") {
		t.Errorf("cancelled: %+v", got)
	}
	k.logged("cancelled it is")
}

// A process that reads nothing any more does not hold up a call, and is replaced.
func TestDeaf(t *testing.T) {
	t.Parallel()
	s := stdio("deaf")
	s.Timeout = 300 * time.Millisecond
	quicker := quick()
	quicker.probe = 100 * time.Millisecond
	k := keep(t, quicker, s)
	if got := k.call("echo", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`); !got.IsError || !strings.Contains(got.Text, "no answer within 300ms") {
		t.Errorf("echo: %.200s", got.Text)
	}
	k.logged("an MCP server does not answer any more")
	k.eventually("it is connected again", func() bool { return strings.Count(k.log.String(), "an MCP server is connected") > 1 })
}

// A run hears of the tools of a server that does not come up as missing, and of those
// of one that was up they stay.
func TestDown(t *testing.T) {
	t.Parallel()
	quicker := quick()
	quicker.settle, quicker.back = 50*time.Millisecond, 50*time.Millisecond
	hasty := quicker
	hasty.connect = 200 * time.Millisecond
	mute, broken, gone := stdio("mute"), stdio("broken"), stdio("plain")
	mute.Name, broken.Name, gone.Name, gone.Command = "mute", "broken", "gone", "/nowhere/server"
	for _, down := range []struct {
		times   times
		servers []Server
		logged  []string
	}{
		{hasty, []Server{mute}, []string{"mcp_server=mute error=\"connecting: "}},
		{quicker, []Server{broken, gone}, []string{"exit status 3", "no such file", `stream=stderr text="no such module"`}},
	} {
		k := keep(t, down.times, down.servers...)
		tools, missing := k.Tools(context.Background(), all)
		if len(tools) != 0 || len(missing) != len(down.servers) ||
			missing[0] != (tool.Missing{Entry: "mcp__" + down.servers[0].Name + "__*", Why: "the MCP server can't be reached"}) {
			t.Errorf("tools %v, missing %v", tools, missing)
		}
		for _, text := range down.logged {
			k.logged(text)
		}
	}

	file := t.TempDir() + "/server"
	if err := os.Symlink(os.Args[0], file); err != nil {
		t.Fatal(err)
	}
	s := stdio("plain")
	s.Command = file
	quicker = quick()
	quicker.back = 50 * time.Millisecond
	k := keepIn(t, sandbox.Off, quicker, s)
	k.tool("mcp__s__die")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	k.call("die", "{}")
	k.logged("no such file")
	if got := k.call("echo", "{}"); !got.IsError || !strings.Contains(got.Text, "the MCP server s is down, and was not back within 50ms: ") {
		t.Errorf("a call of a server that is down: %+v", got)
	}
	if err := os.Symlink(os.Args[0], file); err != nil {
		t.Fatal(err)
	}
	k.eventually("it is back", func() bool { return !k.call("echo", "{}").IsError })
}

// The operator is told the last words of a process that has ended, and what it could not see.
func TestLastWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := dir + "/server.sh"
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	broken, unseen, unread := stdio("broken"), Server{Name: "unseen", Command: script}, Server{Name: "unread", Command: "/bin/sh", Args: []string{script}}
	broken.Name = "broken"
	k := keep(t, quick(), broken, unseen, unread)
	hidden := "not visible in the sandbox: " + script
	for server, text := range map[string]string{"broken": "exit status 3; its last words: no such module", "unseen": hidden, "unread": hidden} {
		down := func(line string) bool {
			return strings.Contains(line, "mcp_server="+server) && strings.Contains(line, "an MCP server is down") && strings.Contains(line, text)
		}
		k.eventually(server+" is said to be down with "+text, func() bool { return slices.ContainsFunc(strings.Split(k.log.String(), "\n"), down) })
	}
	if seen := "sandbox: " + os.Args[0]; strings.Contains(k.log.String(), seen) {
		t.Errorf("what it may see is said to be hidden:\n%s", k.log)
	}
}

func TestListChanged(t *testing.T) {
	t.Parallel()
	k := keep(t, quick(), stdio("plain"))
	k.call("grow", "{}")
	k.eventually("the new tool is listed", func() bool {
		tools, _ := k.Tools(context.Background(), all)
		_, ok := tool.Lookup(tools, "mcp__s__grown")
		return ok
	})
	if got := k.call("grown", "{}"); got.IsError || got.Text != "grown" {
		t.Errorf("grown: %+v", got)
	}
}

// Nothing is left of a server once it is stopped, nor of what it has started.
func TestStop(t *testing.T) {
	t.Parallel()
	k := keepIn(t, sandbox.Off, quick(), stdio("plain"))
	var pids []int
	for _, own := range []string{"pid", "leave"} {
		pid, err := strconv.Atoi(k.call(own, "{}").Text)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	k.stop()
	for _, pid := range pids {
		k.eventually("a process is gone", func() bool { return !alive(pid) })
	}
	if got := (remote{server: k.servers[0]}).server; got.conn != nil {
		t.Error("it is stopped and connected")
	}
}

// Secrets are in no result, and what a process says is bounded.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	servers, err := Parse("x", []byte(`{"mcpServers": {"s": {"command": "`+os.Args[0]+`", "env": {"`+asServer+`": "babbles", "TOKEN": "Bearer ${T}"}}}}`),
		func(name string) (string, bool) { return secret, name == "T" })
	if err != nil {
		t.Fatal(err)
	}
	k := keep(t, quick(), servers...)
	for _, own := range []string{"fail", "refuse"} {
		if got := k.call(own, "{}"); !got.IsError || strings.Contains(got.Text, secret) || !strings.Contains(got.Text, hidden) {
			t.Errorf("%s: %+v", own, got)
		}
	}
	if got := k.call("echo", `{"x":"`+secret+`"}`); strings.Contains(got.Text, secret) {
		t.Errorf("echo: %+v", got)
	}
	k.stop()
	log := k.log.String()
	if strings.Contains(log, secret) || !strings.Contains(log, "the token is Bearer "+hidden) {
		t.Errorf("the log:\n%.2000s", log)
	}
	if lines := strings.Count(log, "stream=stderr"); lines > 2*maxLinesPerWindow || !strings.Contains(log, "says more than is logged") {
		t.Errorf("of 201 lines %d are logged", lines)
	}
	if len(log) > 200_000 {
		t.Errorf("the log has %d bytes", len(log))
	}
}
