package assembly_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/tree"
)

// patience is how long a test waits for what has to happen; it only guards
// against hanging.
const patience = 60 * time.Second

// client is what a test speaks to a running Coppice with.
type client struct {
	t *testing.T
	pb.SessionServiceClient
	pb.TaskServiceClient
	pb.AgentServiceClient
	pb.AdminServiceClient
	work    pb.WorkerServiceClient
	running *assembly.Running
	patient bool // calls wait for the server to come up
}

func newClient(t *testing.T, conn grpc.ClientConnInterface) *client {
	return &client{
		t:                    t,
		SessionServiceClient: pb.NewSessionServiceClient(conn),
		TaskServiceClient:    pb.NewTaskServiceClient(conn),
		AgentServiceClient:   pb.NewAgentServiceClient(conn),
		AdminServiceClient:   pb.NewAdminServiceClient(conn),
		work:                 pb.NewWorkerServiceClient(conn),
	}
}

// setup starts everything in one process, with a scenario as the model.
func setup(t *testing.T, scenario string, change func(*assembly.Dev)) *client {
	t.Helper()
	played, err := scripted.Parse("scenario.yaml", []byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	dev := assembly.Dev{
		DataDir: t.TempDir(), Workspace: t.TempDir(), Model: scripted.New(played),
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if change != nil {
		change(&dev)
	}
	running, err := assembly.StartDev(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	c := newClient(t, running.Conn())
	c.running = running
	return c
}

func (c *client) ctx() context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	c.t.Cleanup(cancel)
	return ctx
}

func (c *client) create(text string) *pb.Session {
	c.t.Helper()
	req := &pb.CreateSessionRequest{}
	if text != "" {
		req.Message = &pb.UserMessage{Text: text}
	}
	resp, err := c.CreateSession(c.ctx(), req, grpc.WaitForReady(c.patient))
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetSession()
}

// idle watches a session from the start until it is idle.
func (c *client) idle(session string) ([]*pb.Event, *pb.Idle) {
	c.t.Helper()
	stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, UntilIdle: true},
		grpc.WaitForReady(c.patient))
	if err != nil {
		c.t.Fatal(err)
	}
	var events []*pb.Event
	for {
		resp, err := stream.Recv()
		if err != nil {
			c.t.Fatalf("after %d events: %v", len(events), err)
		}
		if idle := resp.GetIdle(); idle != nil {
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				c.t.Fatalf("the stream goes on after idle: %v", err)
			}
			return events, idle
		}
		if e := resp.GetEvent(); e != nil {
			if e.GetSeq() != int64(len(events)+1) {
				c.t.Fatalf("event %d came as number %d", e.GetSeq(), len(events)+1)
			}
			events = append(events, e)
		}
	}
}

// sound holds all that is stored against the rules.
func (c *client) sound() {
	c.t.Helper()
	resp, err := c.Diagnose(c.ctx(), &pb.DiagnoseRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.GetSessions() == 0 || resp.GetTasks() == 0 {
		c.t.Errorf("nothing was looked at: %v", resp)
	}
	for _, v := range resp.GetViolations() {
		c.t.Errorf("task %s: %s: %s", v.GetTaskId(), v.GetRule(), v.GetDetail())
	}
}

func (c *client) wait(session, task string) *pb.Task {
	c.t.Helper()
	resp, err := c.WaitTask(c.ctx(), &pb.WaitTaskRequest{
		SessionId: session, TaskId: task, Timeout: durationpb.New(patience),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if !resp.GetEnded() {
		c.t.Fatalf("task %s is still %s after %s", task, resp.GetTask().GetState(), patience)
	}
	return resp.GetTask()
}

func (c *client) tasks(session string) []*pb.Task {
	c.t.Helper()
	var all []*pb.Task
	req := &pb.ListTasksRequest{SessionId: session, PageSize: 1000}
	for {
		resp, err := c.ListTasks(c.ctx(), req)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, resp.GetTasks()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// fanOut is a root that spawns children which spawn children.
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

func TestAThousandChildrenJoin(t *testing.T) {
	t.Parallel()
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
    text: 'heard {{(json .User).summary}}'
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

func (c *client) root(session string) string {
	c.t.Helper()
	resp, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: session})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetSession().GetRootTaskId()
}

func (c *client) transcript(session, task string) []*pb.Message {
	c.t.Helper()
	stream, err := c.GetTranscript(c.ctx(), &pb.GetTranscriptRequest{SessionId: session, TaskId: task})
	if err != nil {
		c.t.Fatal(err)
	}
	var all []*pb.Message
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, resp.GetMessages()...)
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

func TestRefusals(t *testing.T) {
	t.Parallel()
	limits := tree.DefaultLimits()
	limits.Width, limits.Depth, limits.PartBytes = 2, 1, 1000
	c := setup(t, "steps: [{text: ok}]", func(d *assembly.Dev) { d.Limits = &limits })
	session := c.create("go").GetId()
	other := c.create("go").GetId()
	c.wait(session, "")
	spawn := func(change func(*pb.SpawnTaskRequest)) error {
		req := &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look"}
		change(req)
		_, err := c.SpawnTask(c.ctx(), req)
		return err
	}
	child, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look"})
	if err != nil {
		t.Fatal(err)
	}
	unknown := "0198c0de-0000-7000-8000-000000000000"
	as := func(change func(*pb.SpawnTaskRequest)) func() error {
		return func() error { return spawn(change) }
	}
	for _, test := range []struct {
		name string
		call func() error
		want codes.Code
	}{
		{"unknown agent", as(func(r *pb.SpawnTaskRequest) { r.Agent = "nobody" }), codes.NotFound},
		{"unknown session", as(func(r *pb.SpawnTaskRequest) { r.SessionId = unknown }), codes.NotFound},
		{"unknown parent", as(func(r *pb.SpawnTaskRequest) { r.ParentTaskId = unknown }), codes.NotFound},
		{"foreign parent", as(func(r *pb.SpawnTaskRequest) { r.ParentTaskId = c.root(other) }), codes.NotFound},
		{"no id", as(func(r *pb.SpawnTaskRequest) { r.SessionId = "x" }), codes.InvalidArgument},
		{"no prompt", as(func(r *pb.SpawnTaskRequest) { r.Prompt = "" }), codes.InvalidArgument},
		{"too large", as(func(r *pb.SpawnTaskRequest) { r.Prompt = strings.Repeat("x", 1001) }), codes.ResourceExhausted},
		{"an agent that may be both", as(func(r *pb.SpawnTaskRequest) { r.Agent = "general-purpose" }), codes.OK},
		{"too deep", as(func(r *pb.SpawnTaskRequest) { r.ParentTaskId = child.GetTask().GetId() }), codes.FailedPrecondition},
		{"too wide", as(func(*pb.SpawnTaskRequest) {}), codes.FailedPrecondition},
		{"a root that is none", func() error {
			_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Agent: "explore"})
			return err
		}, codes.InvalidArgument},
		{"an empty message", func() error {
			_, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session})
			return err
		}, codes.InvalidArgument},
		{"beyond the end", func() error {
			stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, AfterSeq: 9999})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		}, codes.OutOfRange},
		{"a page token of others", func() error {
			_, err := c.ListTasks(c.ctx(), &pb.ListTasksRequest{SessionId: session, PageToken: "%%%"})
			return err
		}, codes.InvalidArgument},
		{"unknown definition", func() error {
			_, err := c.GetAgent(c.ctx(), &pb.GetAgentRequest{Name: "nobody"})
			return err
		}, codes.NotFound},
	} {
		if err := test.call(); status.Code(err) != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	if all := c.tasks(session); len(all) != 3 {
		t.Errorf("%d tasks after all refusals, want 3", len(all))
	}
}

// TestAStaleTokenIsRefused claims a run by hand, lets another claim the same
// hint, and goes on after its own run was taken away.
func TestAStaleTokenIsRefused(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{delay: 2s, text: slow}]`, func(d *assembly.Dev) { d.Slots = 1 })
	session := c.create("go")
	task := ""
	watch, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	for task == "" {
		resp, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetEvent().GetDispatched() != nil {
			task = resp.GetEvent().GetTaskId()
		}
	}
	stream, err := c.work.Work(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetWelcome() == nil {
		t.Fatalf("the stream starts with %v, %v", first, err)
	}
	claim := func(epoch int64) *pb.WorkResponse {
		t.Helper()
		if err := stream.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{
			SessionId: session.GetId(), TaskId: task, Epoch: epoch, Nonce: 1, WorkerId: "by hand", Protocol: 1,
		}}}); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for _, epoch := range []int64{0, 1, 2} {
		if resp := claim(epoch); resp.GetRefused().GetCause() != pb.RefusedCause_REFUSED_CAUSE_STALE {
			t.Errorf("a claim of epoch %d while the run is with a worker: %v", epoch, resp)
		}
	}
	if root := c.wait(session.GetId(), ""); root.GetResult() != "slow" || root.GetEpoch() != 1 {
		t.Errorf("the root ended with %q at epoch %d", root.GetResult(), root.GetEpoch())
	}
}
