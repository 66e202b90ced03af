package assembly_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

func fanOut(wide, deep string) string {
	return strings.NewReplacer("WIDE", wide, "DEEP", deep).Replace(`
steps:
  - when: {depth: 0, turn: 1}
    calls:
      - {tool: task, for_each: numbers WIDE, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore}}
  - when: {depth: 0}
    text: 'joined {{len (results "task")}}'
  - when: {depth: 1, turn: 1, if: 'gt DEEP 0'}
    calls:
      - {tool: task, for_each: numbers DEEP, input: {description: 'leaf {{.Item}}', prompt: 'leaf {{.Item}}', subagent_type: explore}}
  - when: {depth: 1}
    text: 'below {{len (results "task")}}'
  - text: done
`)
}

func TestOneSlotFinishesATree(t *testing.T) {
	t.Parallel()
	c := setup(t, fanOut("10", "10"), func(d *assembly.Dev) { d.Slots = 1 })
	session := c.create("go")
	root := c.wait(session.GetId(), "")
	if root.GetState() != pb.TaskState_TASK_STATE_COMPLETED || root.GetResult() != "joined 10" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
	if all := c.tasks(session.GetId()); len(all) != 111 {
		t.Errorf("%d tasks, want 111", len(all))
	}
	c.sound()
}

func TestAThousandChildrenJoin(t *testing.T) { // by itself: it is wide
	c := setup(t, fanOut("1000", "0"), nil)
	session := c.create("go")
	if root := c.wait(session.GetId(), ""); root.GetResult() != "joined 1000" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
	events, _ := c.idle(session.GetId())
	running, most := 0, 0
	for _, e := range events {
		switch k := e.GetKind().(type) {
		case *pb.Event_Dispatched:
			running++
		case *pb.Event_Parked:
			running--
		case *pb.Event_Result:
			running--
			if k.Result.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
				t.Errorf("event %d: %s", e.GetSeq(), k.Result)
			}
		}
		most = max(most, running)
	}
	if limit := tree.DefaultLimits().Running; most > limit {
		t.Errorf("%d tasks ran at once, the cap is %d", most, limit)
	}
}

func TestTheRunningCapQueues(t *testing.T) {
	t.Parallel()
	limits := tree.DefaultLimits()
	limits.Running = 3
	c := setup(t, fanOut("40", "0"), func(d *assembly.Dev) { d.Limits = &limits })
	session := c.create("go")
	if root := c.wait(session.GetId(), ""); root.GetResult() != "joined 40" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
}

func TestAWatchReplaysTheSameEvents(t *testing.T) {
	t.Parallel()
	c := setup(t, fanOut("5", "2"), nil)
	session := c.create("go").GetId()
	first, idle := c.idle(session)
	if idle.GetRoot().GetState() != pb.TaskState_TASK_STATE_COMPLETED || idle.GetLastSeq() != int64(len(first)) {
		t.Errorf("idle: %v after %d events", idle, len(first))
	}
	again, _ := c.idle(session)
	if len(again) != len(first) {
		t.Fatalf("%d events, then %d", len(first), len(again))
	}
	for i := range first {
		if !proto.Equal(first[i], again[i]) {
			t.Errorf("event %d: %v, then %v", i+1, first[i], again[i])
		}
	}
	stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, AfterSeq: 7, UntilIdle: true})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := stream.Recv(); err != nil || resp.GetEvent().GetSeq() != 8 {
		t.Errorf("after 7 comes %v, %v", resp, err)
	}
}

// TestAWatchSaysThatItStands with its headers, also if there is nothing to send yet.
func TestAWatchSaysThatItStands(t *testing.T) {
	t.Parallel()
	c := setup(t, "steps: [{text: done}]", nil)
	session := c.create("go").GetId()
	events, _ := c.idle(session)
	for name, req := range map[string]*pb.WatchSessionRequest{
		"nothing": {SessionId: session, AfterSeq: int64(len(events))}, "some": {SessionId: session}, "an end": {SessionId: session, AfterSeq: int64(len(events)), UntilIdle: true},
	} {
		stream, err := c.WatchSession(c.ctx(), req)
		if err != nil {
			t.Fatal(err)
		}
		if head, err := stream.Header(); err != nil || head == nil {
			t.Errorf("a watch that has %s to send: %v, %v", name, head, err)
		}
	}
	refused, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, AfterSeq: 9999})
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := refused.Header(); head != nil {
		t.Errorf("a watch that is refused: %v", head)
	}
}

func TestSiblingsAreOrderedByStart(t *testing.T) {
	t.Parallel()
	c := setup(t, fanOut("8", "3"), nil)
	session := c.create("go").GetId()
	c.wait(session, "")
	resp, err := c.GetTree(c.ctx(), &pb.GetTreeRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	var check func(n *pb.TreeNode) int
	check = func(n *pb.TreeNode) int {
		count := 1
		for i, child := range n.GetChildren() {
			if child.GetTask().GetParentId() != n.GetTask().GetId() {
				t.Errorf("%s is below %s", child.GetTask().GetId(), n.GetTask().GetId())
			}
			if i > 0 && n.Children[i-1].GetTask().GetId() >= child.GetTask().GetId() {
				t.Errorf("child %d is older than the one before it", i)
			}
			count += check(child)
		}
		return count
	}
	if n := check(resp.GetRoot()); n != 33 || resp.GetSession().GetTasks().GetTotal() != 33 {
		t.Errorf("%d nodes, %d tasks, want 33", n, resp.GetSession().GetTasks().GetTotal())
	}
	list, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) != 1 {
		t.Errorf("sessions: %v, %v; want the parent only", list, err)
	}
	top, err := c.GetTree(c.ctx(), &pb.GetTreeRequest{SessionId: session, MaxDepth: 1})
	if err != nil || len(top.GetRoot().GetChildren()[0].GetChildren()) != 0 {
		t.Errorf("max_depth 1 shows more: %v, %v", top, err)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	c := setup(t, fanOut("1", "0"), nil)
	create := &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "go"}, IdempotencyKey: "k"}
	first, err := c.CreateSession(c.ctx(), create)
	if err != nil {
		t.Fatal(err)
	}
	session := first.GetSession().GetId()
	if again, err := c.CreateSession(c.ctx(), create); err != nil || again.GetSession().GetId() != session {
		t.Errorf("the repeat made %v, %v", again, err)
	}
	create.Message.Text = "something else"
	if _, err := c.CreateSession(c.ctx(), create); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same key for something else: %v", err)
	}
	c.wait(session, "")
	spawn := &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look", IdempotencyKey: "s"}
	one, err := c.SpawnTask(c.ctx(), spawn)
	if err != nil {
		t.Fatal(err)
	}
	two, err := c.SpawnTask(c.ctx(), spawn)
	if err != nil || two.GetTask().GetId() != one.GetTask().GetId() {
		t.Errorf("two equal spawns made %v and %v, %v", one, two, err)
	}
	if task := c.wait(session, one.GetTask().GetId()); task.GetResult() != "below 0" {
		t.Errorf("the spawned task ended with %q", task.GetResult())
	}
	if all := c.tasks(session); len(all) != 3 {
		t.Errorf("%d tasks, want 3", len(all))
	}
}

func TestAConversationGoesOn(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {turn: 1}
    text: 'first: {{.User}}'
  - text: 'then: {{.User}}'
`, nil)
	session := c.create("").GetId()
	root, err := c.WaitTask(c.ctx(), &pb.WaitTaskRequest{SessionId: session, Timeout: durationpb.New(0)})
	if err != nil || root.GetEnded() || root.GetTask().GetState() != pb.TaskState_TASK_STATE_NEW {
		t.Errorf("before the first message: %v, %v", root, err)
	}
	for i, want := range []string{"first: one", "then: two", "then: three"} {
		text := strings.Fields(want)[1]
		sent, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: text}})
		if err != nil || sent.GetTask().GetRun() != int32(i+1) {
			t.Fatalf("send %d: %v, %v", i, sent, err)
		}
		if task := c.wait(session, ""); task.GetResult() != want {
			t.Errorf("turn %d: %q, want %q", i, task.GetResult(), want)
		}
	}
}

func TestABackgroundChildStartsTheNextTurn(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: later, prompt: later, subagent_type: explore, run_in_background: true}}]
  - when: {depth: 0, turn: 2}
    text: 'launched {{(json (result "task" 0)).result}}'
  - when: {depth: 0}
    text: 'heard {{(json .Last).summary}}'
  - {delay: 300ms, text: it is late}
`, nil)
	session := c.create("go").GetId()
	events, idle := c.idle(session)
	if idle.GetRoot().GetRun() != 2 {
		t.Errorf("the root had %d runs, want 2", idle.GetRoot().GetRun())
	}
	if root := c.wait(session, ""); root.GetResult() != "heard it is late" {
		t.Errorf("the root ended with %q", root.GetResult())
	}
	news := 0
	for _, e := range events {
		if e.GetMessage().GetNews() != nil {
			news++
		}
	}
	if news != 1 {
		t.Errorf("the news came %d times", news)
	}
}

func TestTaskOutputWaitsAndLooks(t *testing.T) {
	t.Parallel()
	c := setup(t, `
vars:
  id: '(json (index (allResults "task") 0)).task_id'
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: later, prompt: later, subagent_type: explore, run_in_background: true}}]
  - when: {depth: 0, turn: 2}
    calls: [{tool: task_output, input: '{"task_id":"{{var "id"}}","block":false}'}]
  - when: {depth: 0, turn: 3}
    calls: [{tool: task_output, input: '{"task_id":"{{var "id"}}","timeout":60000}'}]
  - when: {depth: 0}
    text: '{{(json (index (allResults "task_output") 0)).status}}, then {{(json (index (allResults "task_output") 1)).status}}'
  - {delay: 1s, text: late}
`, nil)
	session := c.create("go").GetId()
	first, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := first.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r := resp.GetEvent().GetResult(); r != nil && resp.GetEvent().GetTaskId() == c.root(session) {
			break
		}
	}
	transcript := c.transcript(session, "")
	var said string
	for _, m := range transcript {
		if m.GetRole() == pb.Role_ROLE_ASSISTANT && m.GetStopReason() == pb.StopReason_STOP_REASON_END_TURN {
			said = m.GetBlocks()[0].GetText().GetText()
			break
		}
	}
	if said != "running, then completed" && said != "queued, then completed" {
		t.Errorf("the root said %q", said)
	}
}

func TestToolsSeeTheWorkspaceOnly(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {turn: 1}
    calls:
      - {tool: read, input: {path: hello.txt}}
      - {tool: read, input: {path: ../../etc/passwd}}
      - {tool: grep, input: {pattern: w.rld, output_mode: content}}
      - {tool: ls, input: {paht: .}}
      - {tool: rm, input: {path: hello.txt}}
  - text: ok
`, func(d *assembly.Dev) {
		if err := os.WriteFile(filepath.Join(d.Workspace, "hello.txt"), []byte("hello world\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	session := c.create("go").GetId()
	c.wait(session, "")
	messages := c.transcript(session, "")
	if len(messages) != 4 {
		t.Fatalf("%d messages: %v", len(messages), messages)
	}
	results := messages[2].GetBlocks()
	for i, want := range []struct {
		part  string
		isErr bool
	}{{"hello world", false}, {"workspace", true}, {"hello.txt:1:hello world", false}, {"paht", true}, {`no tool "rm"`, true}} {
		r := results[i].GetToolResult()
		if int(r.GetBlock()) != i || r.GetIsError() != want.isErr || !strings.Contains(r.GetText(), want.part) {
			t.Errorf("result %d: %v, want %q", i, r, want.part)
		}
	}
}
