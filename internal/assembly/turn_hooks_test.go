package assembly_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/proctest"
)

// hooked is a deployment whose worker has hooks, and a server that is called.
type hooked struct {
	*deployment
	starts, stops *proctest.Lines // what hooks write

	mu     sync.Mutex
	down   bool
	called []call
	rung   chan struct{} // there is something in it once called has grown
}

// call is a callback as it came.
type call struct {
	key, signature string
	body           struct {
		Task   string `json:"task_id"`
		Run    int    `json:"run"`
		Agent  string `json:"agent"`
		Status string `json:"status"`
		Reason string `json:"reason"`
		Result string `json:"result"`
	}
}

// scribes is a root that sends a scribe; a scribe writes a draft, and says what it was
// told last when it is asked again.
const scribes = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: d, prompt: Write., subagent_type: scribe}}]
  - when: {depth: 0}
    text: 'it was {{(json (result "task" 0)).summary}}'
  - when: {prompt: hang}
    delay: 1h
    text: late
  - when: {last: sum up the conversation}
    text: summary
  - when: {turn: 1, prompt: ^go on}
    calls: [{tool: ls, input: {path: .}}]
    usage: {input: 170000}
  - when: {turn: 1}
    text: draft
  - text: 'final after: {{.User}}'
`

// onHooked runs a test with SQLite and with PostgreSQL; hooks is what the workers' file
// of hooks says.
func onHooked(t *testing.T, hooks string, test func(*testing.T, *hooked)) {
	t.Helper()
	var servers sync.Map // of deployments
	onBoth(t, scribes, func(d *deployment) {
		h := &hooked{deployment: d, rung: make(chan struct{}, 1)}
		servers.Store(d, h)
		server := httptest.NewServer(h)
		d.t.Cleanup(server.Close)
		d.write("hooks.yaml", hooks, "agents/scribe.md", `---
name: scribe
description: Writes.
mode: subagent
hooks:
  - name: remote
    event: SubagentStop
    url: `+server.URL+`/stop
on_complete: `+server.URL+`/ended
---
You write.
`, "agents/loner.md", `---
name: loner
description: Calls whom it may not call.
mode: subagent
on_complete: https://elsewhere.example/ended
---
You write.
`)
		h.starts, h.stops = proctest.OpenLines(d.t, d.in("starts")), proctest.OpenLines(d.t, d.in("stops"))
		d.orchestratorFlags = []string{
			"--agents-dir", d.in("agents"), "--callback-hosts", "127.0.0.1", "--callback-secret", "s3cret",
			"--callback-timeout", "1s",
		}
		d.workerFlags = []string{"--hooks", d.in("hooks.yaml"), "--definition-hooks"}
	}, func(t *testing.T, d *deployment) {
		h, _ := servers.Load(d)
		test(t, h.(*hooked))
	})
}

// ServeHTTP answers hooks and callbacks.
func (h *hooked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path == "/stop" {
		_, _ = io.WriteString(w, `{"decision":"approve"}`)
		return
	}
	c := call{key: r.Header.Get("Idempotency-Key"), signature: r.Header.Get("Coppice-Signature")}
	if err := json.NewDecoder(r.Body).Decode(&c.body); err != nil {
		h.t.Error(err)
	}
	h.called = append(h.called, c)
	select {
	case h.rung <- struct{}{}:
	default:
	}
	if h.down {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (h *hooked) calls() []call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]call(nil), h.called...)
}

func (h *hooked) setDown(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

// callbackEnded watches until the callback of a task has ended.
func (c *client) callbackEnded(session, task string) *pb.CallbackEnded {
	c.t.Helper()
	events := c.events(session, func(e *pb.Event) bool { return e.GetCallbackEnded() != nil && e.GetTaskId() == task })
	return events[len(events)-1].GetCallbackEnded()
}

// texts gives a transcript as who said what.
func (c *client) texts(session, task string) string {
	c.t.Helper()
	var lines []string
	for _, m := range c.transcript(session, task) {
		var text []string
		for _, b := range m.GetBlocks() {
			text = append(text, b.GetText().GetText())
		}
		lines = append(lines, strings.ToLower(strings.TrimPrefix(m.GetRole().String(), "ROLE_"))+": "+strings.Join(text, " "))
	}
	return strings.Join(lines, "\n")
}

const hookedTranscript = `user: Write.
user: Context from the hook "rules":
Be brief.
assistant: draft
user: The hook "gate" does not let you end yet:
Add a summary.
assistant: final after: The hook "gate" does not let you end yet:
Add a summary.`

// TestHooksAroundASubagent has hooks that help, that object, and that go wrong, and
// agents whose end is called back for, however they end.
func TestHooksAroundASubagent(t *testing.T) {
	t.Parallel()
	onHooked(t, `
hooks:
  - {name: rules, event: SubagentStart, matcher: "scr*", command: [echo, Be brief.]}
  - {name: hangs, event: SubagentStart, matcher: scribe, command: [sleep, "1000"], timeout: 500ms}
  - {name: gone, event: SubagentStart, matcher: scribe, command: [no-such-program]}
  - {name: breaks, event: SubagentStart, matcher: scribe, command: [sh, -c, "echo oh >&2; exit 3"]}
  - {name: others, event: SubagentStart, matcher: explore, command: [echo, Never.]}
  - name: gate
    event: SubagentStop
    matcher: scribe
    command: [sh, -c, "grep -q '\"stop_hook_active\":true' || { echo Add a summary. >&2; exit 2; }"]
`, func(t *testing.T, h *hooked) {
		c := h.client()
		session := c.create("go").GetId()
		if root := c.wait(session, ""); !strings.HasPrefix(root.GetResult(), "it was final after: The hook") {
			t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
		}
		scribe := c.tasks(session)[1].GetId()
		if got := c.texts(session, scribe); got != hookedTranscript {
			t.Errorf("the transcript is\n%s\nwant\n%s", got, hookedTranscript)
		}
		if ended := c.callbackEnded(session, scribe); !ended.GetDelivered() || ended.GetRun() != 1 {
			t.Errorf("the callback ended %v", ended)
		}
		outcomes := map[string]string{}
		events, _ := c.idle(session)
		for _, e := range events {
			if ran := e.GetHookRan(); ran != nil {
				outcomes[ran.GetName()] += strings.TrimPrefix(ran.GetOutcome().String(), "HOOK_OUTCOME_") + " "
			}
		}
		for name, want := range map[string]string{
			"rules": "PASSED ", "hangs": "TIMED_OUT ", "gone": "MISSING ", "breaks": "FAILED ", "others": "",
			"gate": "BLOCKED PASSED ", "remote": "PASSED PASSED ",
		} {
			if outcomes[name] != want {
				t.Errorf("hook %s: %q, want %q", name, outcomes[name], want)
			}
		}
		h.cancelledAndForbidden(c, session)
		calls := h.calls()
		if first := calls[0]; len(calls) != 3 || first.key != session+"/"+scribe+"/1" || !strings.HasPrefix(first.signature, "t=") ||
			first.body.Status != "completed" || first.body.Agent != "scribe" || !strings.HasPrefix(first.body.Result, "final after") {
			t.Errorf("called %+v", calls)
		}
		c.sound()
	})
}

// cancelledAndForbidden: a cancelled run and one whose time is up are called back
// for, and one that may not call says so.
func (h *hooked) cancelledAndForbidden(c *client, session string) {
	h.t.Helper()
	hang := func(timeout *durationpb.Duration) string {
		return c.spawn(&pb.SpawnTaskRequest{SessionId: session, Agent: "scribe", Prompt: "hang", Timeout: timeout}).GetId()
	}
	late := hang(durationpb.New(time.Second))
	c.callbackEnded(session, late)
	cancelled := hang(nil)
	if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, TaskId: cancelled}); err != nil {
		h.t.Fatal(err)
	}
	c.callbackEnded(session, cancelled)
	want := map[string]string{late: "failed TIMEOUT", cancelled: "cancelled CANCELLED_BY_USER"}
	for _, call := range h.calls()[1:] {
		if got := call.body.Status + " " + call.body.Reason; got != want[call.body.Task] {
			h.t.Errorf("task %s was told to have ended %s, want %s", call.body.Task, got, want[call.body.Task])
		}
	}
	loner := c.spawn(&pb.SpawnTaskRequest{SessionId: session, Agent: "loner", Prompt: "Write."}).GetId()
	if ended := c.callbackEnded(session, loner); ended.GetDelivered() || ended.GetTries() != 1 || !strings.Contains(ended.GetDetail(), "--callback-hosts") {
		h.t.Errorf("the forbidden callback ended %v", ended)
	}
}

// TestHooksSurviveKills kills all processes while a hook on a start runs, while one
// on a stop does, and while a callback is not answered.
func TestHooksSurviveKills(t *testing.T) {
	t.Parallel()
	onHooked(t, `
hooks:
  - name: rules
    event: SubagentStart
    command: [sh, -c, "echo > starts; while [ ! -e may-start ]; do sleep 0.05; done; echo Be brief."]
  - name: gate
    event: SubagentStop
    command:
      - sh
      - -c
      - |
        grep -q '"stop_hook_active":true' || { echo Add a summary. >&2; exit 2; }
        echo > stops; while [ ! -e may-stop ]; do sleep 0.05; done
`, func(t *testing.T, h *hooked) {
		h.setDown(true)
		session := h.client().create("go").GetId()
		h.starts.Next()
		h.killAll()
		h.write("may-start", "")
		h.stops.Next()
		h.killAll()
		h.write("may-stop", "")
		<-h.rung
		c := h.killAll()
		h.setDown(false)
		c.idle(session)
		scribe := c.tasks(session)[1].GetId()
		ended := c.callbackEnded(session, scribe)
		if calls := h.calls(); !ended.GetDelivered() || ended.GetTries() < 2 || len(calls) < 2 || calls[0].key != calls[len(calls)-1].key {
			t.Errorf("the callback ended %v after %+v", ended, calls)
		}
		if got := c.texts(session, scribe); got != hookedTranscript {
			t.Errorf("the transcript is\n%s\nwant\n%s", got, hookedTranscript)
		}
		events, _ := c.idle(session)
		count := map[string]int{}
		for _, e := range events {
			if ran := e.GetHookRan(); ran != nil {
				count[ran.GetName()+" "+ran.GetOutcome().String()]++
			}
			if e.GetCallbackEnded() != nil {
				count["callback"]++
			}
		}
		if count["rules HOOK_OUTCOME_PASSED"] != 1 || count["gate HOOK_OUTCOME_BLOCKED"] != 1 || count["gate HOOK_OUTCOME_PASSED"] != 1 || count["callback"] != 1 {
			t.Errorf("events of hooks: %v", count)
		}
		c.sound()
	})
}

// TestBadHooksFile: a worker does not begin with hooks that it does not understand.
func TestBadHooksFile(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hooks.yaml")
	if err := os.WriteFile(file, []byte("hooks:\n- name: a\n  event: SubagentStart\n  comand: [a]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(bin, "worker"), "--hooks", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), file+":4: unknown key comand") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHooksStayInTheWorkspace: whoever puts a link in the place of a run's workspace leads
// no hook elsewhere.
func TestHooksStayInTheWorkspace(t *testing.T) {
	t.Parallel()
	onBoth(t, scribes, func(d *deployment) {
		d.workspaces = d.in("work")
		d.write("hooks.yaml", strings.ReplaceAll(`
hooks:
  - name: turns
    event: SubagentStart
    command: [sh, -c, "pwd > DIR/where; mv $(pwd) $(pwd).moved; ln -s DIR/other $(cat DIR/where)"]
  - name: looks
    event: SubagentStop
    command: [sh, -c, "pwd; rm $(cat DIR/where); mv $(cat DIR/where).moved $(cat DIR/where)"]
`, "DIR", d.dir), "other/secret", "", "work/other/seen", "", "agents/scribe.md", agent("scribe", ""))
		d.orchestratorFlags = []string{"--agents-dir", d.in("agents")}
		d.workerFlags = []string{"--hooks", d.in("hooks.yaml")}
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create("go").GetId()
		c.wait(session, "")
		said := map[string]string{}
		events, _ := c.idle(session)
		for _, e := range events {
			if ran := e.GetHookRan(); ran != nil {
				said[ran.GetName()] = strings.TrimSpace(ran.GetMessage())
			}
		}
		want := map[string]string{"turns": "", "looks": filepath.Join(d.workspaces, session) + ".moved"}
		if !maps.Equal(said, want) {
			t.Errorf("hooks said %q, want %q", said, want)
		}
	})
}

// TestHooksReadAPromptThatWasSummedUp kills all processes while a hook on a stop runs, after the
// conversation was summed up.
func TestHooksReadAPromptThatWasSummedUp(t *testing.T) {
	t.Parallel()
	onHooked(t, `
hooks:
  - name: gate
    event: SubagentStop
    command: [sh, -c, "grep -v Write >> inputs || exit 0; echo > stops; while [ ! -e may-stop ]; do sleep 0.05; done"]
`, func(t *testing.T, h *hooked) {
		c := h.client()
		session := c.create("hi").GetId()
		c.idle(session)
		scribe := c.spawn(&pb.SpawnTaskRequest{SessionId: session, Agent: "scribe", Prompt: longTask}).GetId()
		h.stops.Next()
		c = h.killAll()
		h.stops.Next()
		h.write("may-stop", "")
		if got := c.wait(session, scribe); got.GetCompactedOrdinal() == 0 || got.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("the scribe ended %v", got)
		}
		inputs, err := os.ReadFile(h.in("inputs"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(inputs), `"prompt":"`+longTask+`"`); got != 2 {
			t.Errorf("%d of 2 hooks read the prompt: %.2000s", got, inputs)
		}
	})
}
