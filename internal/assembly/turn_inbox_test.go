package assembly_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// described gives the task with a description.
func (c *client) described(session, what string) *pb.Task {
	c.t.Helper()
	for _, t := range c.tasks(session) {
		if t.GetDescription() == what {
			return t
		}
	}
	c.t.Fatalf("there is no task %q", what)
	return nil
}

// firstText is what a task was told first.
func (c *client) firstText(session, task string) string {
	c.t.Helper()
	var text []string
	for _, b := range c.transcript(session, task)[0].GetBlocks() {
		text = append(text, b.GetText().GetText())
	}
	return strings.Join(text, "\n")
}

func count(events []*pb.Event, is func(*pb.Event) bool) int {
	n := 0
	for _, e := range events {
		if is(e) {
			n++
		}
	}
	return n
}

const joining = `
steps:
  - when: {depth: 0, turn: 1}
    calls:
      - {tool: task, input: {description: quick, prompt: quick, subagent_type: explore, join: any, join_need: 2, context: known,
          context_files: [known.txt, none.txt], max_iterations: 3}}
      - {tool: task, input: {description: swift, prompt: swift, subagent_type: explore, join_need: 2}}
      - {tool: task, input: {description: slow, prompt: slow, subagent_type: explore, join_need: 2}}
      - {tool: task, input: {description: late, prompt: late, subagent_type: explore, join_timeout: 1500}}
  - {when: {depth: 0, turn: 2}, text: 'joined {{len (results "task")}}'}
  - {when: {depth: 0}, text: 'heard {{(json .Last).summary}}'}
  - {when: {prompt: quick}, delay: 1s, text: quick is done}
  - {when: {prompt: swift}, delay: 2s, text: swift is done}
  - {when: {prompt: late, turn: 1}, delay: 2h, text: late is done}
  - {when: {prompt: slow}, delay: 1h, text: never}
`

// TestJoinsOutliveACrash: of three children in a race the first two win, of one with a
// join's deadline the parent is told later, and all is killed before each.
func TestJoinsOutliveACrash(t *testing.T) {
	t.Parallel()
	onBoth(t, joining, nil, func(t *testing.T, d *deployment) {
		if err := os.WriteFile(filepath.Join(d.dir, "known.txt"), []byte("what is known\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := d.client()
		session := c.create("go").GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetParked() != nil })
		c = d.killAll()
		c.turn(session, 1)
		d.write("scenario.yaml", strings.Replace(joining, "2h", "0s", 1)) // for the workers that come
		c = d.killAll()
		events := c.events(session, func(e *pb.Event) bool {
			return e.GetResult() != nil && e.GetTaskId() == c.root(session) && e.GetRun() == 2
		})
		if root := c.wait(session, ""); root.GetResult() != "heard late is done" {
			t.Errorf("the root ended with %q", root.GetResult())
		}
		slow, swift, quick := c.described(session, "slow"), c.described(session, "swift"), c.described(session, "quick")
		if slow.GetReason() != pb.Reason_REASON_CANCELLED_BY_PARENT || swift.GetState() != pb.TaskState_TASK_STATE_COMPLETED || quick.GetMaxIterations() != 3 {
			t.Errorf("slow is %v, swift is %v, quick is %v", slow, swift, quick)
		}
		for _, want := range []string{"quick\n", "known", "File known.txt", "what is known", "- none.txt: "} {
			if told := c.firstText(session, quick.GetId()); !strings.Contains(told, want) {
				t.Errorf("%q is not in %q", want, told)
			}
		}
		if n := count(events, func(e *pb.Event) bool { return e.GetBackgrounded() != nil }); n != 1 {
			t.Errorf("%d children went into the background", n)
		}
		c.sound()
	})
}

const slowChild = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: slow, prompt: take long, subagent_type: explore}}]
  - {when: {depth: 0, last: task_id}, text: 'heard {{(json .Last).status}} of {{(json .Last).message}}'}
  - {when: {depth: 0}, text: 'heard {{.User}}'}
  - {when: {turn: 1}, text: I take my time, calls: [{tool: ls, input: {path: .}}, {tool: glob, input: {pattern: '*'}}]}
  - {delay: 1h, text: late}
`

// TestInboxOutlivesACrash: what was said while a task waits is there after all was
// killed; a message that interrupts is read now, and each end is told once.
func TestInboxOutlivesACrash(t *testing.T) {
	t.Parallel()
	onBoth(t, slowChild, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create("go").GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetParked() != nil })
		send := func(text string, delivery pb.Delivery) *pb.SendMessageResponse {
			t.Helper()
			resp, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{
				SessionId: session, Message: &pb.UserMessage{Text: text}, Delivery: delivery,
			})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		send("dropped", 0)
		cleared, err := c.ClearInbox(c.ctx(), &pb.ClearInboxRequest{SessionId: session})
		if err != nil || cleared.GetMessages() != 1 {
			t.Fatalf("cleared %v, %v", cleared, err)
		}
		send("one", pb.Delivery_DELIVERY_NEXT_BOUNDARY)
		c = d.killAll()
		waiting, err := c.ListInbox(c.ctx(), &pb.ListInboxRequest{SessionId: session})
		if err != nil || len(waiting.GetEntries()) != 1 || waiting.GetEntries()[0].GetText() != "one" {
			t.Fatalf("what waits is %v, %v", waiting, err)
		}
		if sent := send("two", pb.Delivery_DELIVERY_INTERRUPT); !sent.GetQueued() || sent.GetBackgrounded() != 1 {
			t.Errorf("the interruption was answered %v", sent)
		}
		if root := c.wait(session, ""); root.GetResult() != "heard two" || root.GetRun() != 1 {
			t.Errorf("run %d of the root ended with %q", root.GetRun(), root.GetResult())
		}
		child := c.described(session, "slow")
		if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, TaskId: child.GetId()}); err != nil {
			t.Fatal(err)
		}
		events, _ := c.idle(session)
		if root := c.wait(session, ""); root.GetRun() != 2 || root.GetResult() != "heard cancelled of Your background agent was cancelled: slow (explore)" {
			t.Errorf("run %d of the root ended with %q", root.GetRun(), root.GetResult())
		}
		for what, want := range map[string]int{"news": 1, "taken": 1, "cleared": 1, "empty": 2, "queued": 3} {
			if n := count(events, func(e *pb.Event) bool { return inboxEvent(e) == what }); n != want {
				t.Errorf("%d events say %q, want %d", n, what, want)
			}
		}
		c.sound()
	})
}

// inboxEvent names what an event says of an inbox.
func inboxEvent(e *pb.Event) string {
	switch k := e.GetKind().(type) {
	case *pb.Event_Message:
		if k.Message.GetNews() != nil {
			return "news"
		}
	case *pb.Event_InboxTaken:
		return "taken"
	case *pb.Event_InboxCleared:
		return "cleared"
	case *pb.Event_InboxEmpty:
		return "empty"
	case *pb.Event_Queued:
		return "queued"
	}
	return ""
}

const reading = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: slow, prompt: take long, subagent_type: explore, background: true}}]
  - when: {depth: 0, turn: 2}
    calls: [{tool: task_output, input: {task_id: '{{(json (result "task" 0)).task_id}}', timeout: 600000}}]
  - {when: {depth: 0}, text: '{{.Last}}'}
  - {when: {turn: 1}, text: I take my time, calls: [{tool: ls, input: {path: .}}, {tool: glob, input: {pattern: '*'}}]}
  - {delay: 1h, text: done at last}
`

// TestOutputOutlivesACrash reads what a child has said so far, and how far it is,
// kills everything while its parent waits for it, and reads the end.
func TestOutputOutlivesACrash(t *testing.T) {
	t.Parallel()
	onBoth(t, reading, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create("go").GetId()
		tools := 0
		c.events(session, func(e *pb.Event) bool {
			if e.GetCallClosed() != nil && e.GetTaskId() != c.root(session) {
				tools++
			}
			return tools == 2
		})
		child := c.described(session, "slow")
		early, err := c.WaitTask(c.ctx(), &pb.WaitTaskRequest{
			SessionId: session, TaskId: child.GetId(), Timeout: durationpb.New(0),
		})
		if err != nil {
			t.Fatal(err)
		}
		out := early.GetOutput()
		if early.GetEnded() || out.GetOutput() != "I take my time" || out.GetAgent().GetPrompt() != "take long" ||
			!slices.Equal(early.GetTask().GetRecentActivities(), []string{"ls .", "glob *"}) ||
			!strings.HasPrefix(out.GetAgent().GetProgress(), "running, 2 tool uses, ") {
			t.Errorf("the early look gave %v", early)
		}
		d.write("scenario.yaml", strings.Replace(reading, "1h", "0s", 1)) // for the workers that come
		c = d.killAll()
		late, err := c.WaitTask(c.ctx(), &pb.WaitTaskRequest{
			SessionId: session, TaskId: child.GetId(), Timeout: durationpb.New(patience),
		})
		if err != nil || !late.GetEnded() || late.GetOutput().GetAgent().GetResult() != "done at last" {
			t.Errorf("the wait gave %v, %v", late, err)
		}
		c.idle(session)
		var seen tree.Output
		for _, m := range c.transcript(session, "") {
			for _, b := range m.GetBlocks() {
				if text := b.GetToolResult().GetText(); strings.Contains(text, `"kind"`) {
					if err := json.Unmarshal([]byte(text), &seen); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if seen.Output != "done at last" || seen.Status != "completed" || seen.ToolUses != 2 || seen.Prompt != "take long" {
			t.Errorf("the parent's model saw %+v", seen)
		}
		c.sound()
	})
}

// TestTheEndOfASession closes a session under its work, and deletes it; all is killed
// after each, and nobody else loses anything.
func TestTheEndOfASession(t *testing.T) {
	t.Parallel()
	onBoth(t, slowChild, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		other := c.create("stay").GetId()
		req := &pb.CreateSessionRequest{
			IdempotencyKey: "mine", Message: &pb.UserMessage{Text: "go"}, Metadata: map[string]string{"k": "v"},
		}
		created, err := c.CreateSession(c.ctx(), req)
		if err != nil {
			t.Fatal(err)
		}
		session := created.GetSession().GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetParked() != nil })
		closed, err := c.CloseSession(c.ctx(), &pb.CloseSessionRequest{SessionId: session, Reason: "enough"})
		if err != nil || closed.GetAbandonedRuns() != 2 || closed.GetSession().GetCloseTime() == nil {
			t.Fatalf("closing gave %v, %v", closed, err)
		}
		c = d.killAll()
		for _, task := range c.tasks(session) {
			if task.GetState() != pb.TaskState_TASK_STATE_CANCELLED || task.GetReason() != pb.Reason_REASON_ABANDONED || task.GetDetail() != "enough" {
				t.Errorf("a task of the closed session is %v", task)
			}
		}
		_, err = c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "more"}})
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "the session is closed") {
			t.Errorf("a message to a closed session: %v", err)
		}
		before, _ := c.idle(session)
		if last := before[len(before)-1]; last.GetSessionChanged().GetChange() != pb.SessionChange_SESSION_CHANGE_CLOSED {
			t.Errorf("the last event is %v", last)
		}
		c.sound()
		if _, err := c.DeleteSession(c.ctx(), &pb.DeleteSessionRequest{SessionId: session}); err != nil {
			t.Fatal(err)
		}
		c = d.killAll()
		found, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{IncludeChildren: true})
		if err != nil || len(found.GetSessions()) != 1 || found.GetSessions()[0].GetId() != other {
			t.Errorf("there are %v, %v", found, err)
		}
		if _, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: session}); status.Code(err) != codes.NotFound {
			t.Errorf("the deleted session: %v", err)
		}
		// Once all rows are gone the key may be used for a new session.
		for err = status.Error(codes.Unavailable, ""); status.Code(err) == codes.Unavailable || status.Code(err) == codes.NotFound; {
			_, err = c.CreateSession(c.ctx(), req)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.events(session, func(e *pb.Event) bool { return e.GetParked() != nil })
		c.sound()
	})
}

// TestNoBackground: where background work is switched off, a child that is asked for
// in the background is waited for.
func TestNoBackground(t *testing.T) {
	t.Parallel()
	limits := tree.DefaultLimits()
	limits.NoBackground = true
	c := setup(t, `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: d, prompt: p, subagent_type: explore, run_in_background: true}}]
  - {when: {depth: 0}, text: '{{(json (result "task" 0)).summary}}'}
  - {text: done in the foreground}
`, func(d *assembly.Dev) { d.Limits = &limits })
	session := c.create("go")
	if root := c.wait(session.GetId(), ""); root.GetResult() != "done in the foreground" || !session.GetNoBackground() {
		t.Errorf("%v ended with %q", session, root.GetResult())
	}
	c.sound()
}

// TestBadInboxRequests: what is wrong is refused, and nothing changes.
func TestBadInboxRequests(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{text: done}]`, nil)
	session := c.create("go").GetId()
	c.idle(session)
	for what, call := range map[string]func() error{
		"delivery": func() error {
			_, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "x"}, Delivery: 77})
			return err
		},
		"title": func() error {
			_, err := c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: session})
			return err
		},
		"iterations": func() error {
			_, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "p", MaxIterations: -1})
			return err
		},
		"metadata": func() error {
			_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Metadata: map[string]string{"a": "\x00"}})
			return err
		},
		"inbox": func() error {
			_, err := c.ListInbox(c.ctx(), &pb.ListInboxRequest{SessionId: session, TaskId: "x"})
			return err
		},
		"session": func() error {
			_, err := c.CloseSession(c.ctx(), &pb.CloseSessionRequest{SessionId: "x"})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	long := strings.Repeat("x", 2000)
	if _, err := c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: session, Title: long}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a long title: %v", err)
	}
	c.idle(session)
	c.sound()
}
