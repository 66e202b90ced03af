package assembly_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// spawn starts a sub-agent below the root.
func (c *client) spawn(req *pb.SpawnTaskRequest) *pb.Task {
	c.t.Helper()
	if req.GetAgent() == "" {
		req.Agent, req.Prompt = "explore", "look"
	}
	resp, err := c.SpawnTask(c.ctx(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetTask()
}

// TestBoundsOfARun lets two runs take too long, one at work and one in all; their
// model calls are aborted.
func TestBoundsOfARun(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{when: {depth: 0}, text: ready}, {delay: 1h, text: late}]`, nil)
	session := c.create("go").GetId()
	timeout := c.spawn(&pb.SpawnTaskRequest{SessionId: session, Timeout: durationpb.New(300 * time.Millisecond)})
	due := &pb.SpawnTaskRequest{SessionId: session, IdempotencyKey: "once", Deadline: timestamppb.New(time.Now().Add(3 * time.Second))}
	deadline := c.spawn(due)
	for task, want := range map[*pb.Task]pb.Reason{
		timeout: pb.Reason_REASON_TIMEOUT, deadline: pb.Reason_REASON_DEADLINE,
	} {
		ended := c.wait(session, task.GetId())
		if ended.GetState() != pb.TaskState_TASK_STATE_FAILED || ended.GetReason() != want {
			t.Errorf("the run ended %s %s, want %s", ended.GetState(), ended.GetReason(), want)
		}
	}
	if again := c.spawn(due); again.GetId() != deadline.GetId() {
		t.Errorf("a repeat that comes after its deadline started %s", again.GetId())
	}
	c.idle(session)
	c.sound()
	for _, bad := range []*pb.SpawnTaskRequest{
		{Timeout: durationpb.New(-time.Second)}, {Timeout: &durationpb.Duration{Seconds: 1, Nanos: -1}},
		{Deadline: &timestamppb.Timestamp{Seconds: -1 << 60}}, {Deadline: timestamppb.New(time.Now().Add(-time.Second))},
	} {
		bad.SessionId, bad.Agent, bad.Prompt = session, "explore", "look"
		if _, err := c.SpawnTask(c.ctx(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestBackgroundTaskLetsTheParentGoOn puts a child into the background that never
// ends by itself; its parent goes on at once, and hears of its end.
func TestBackgroundTaskLetsTheParentGoOn(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: d, prompt: p, subagent_type: explore}}]
  - {when: {depth: 0}, text: gone on}
  - {delay: 1h, text: late}
`, nil)
	session := c.create("go").GetId()
	var child string
	c.events(session, func(e *pb.Event) bool {
		if e.GetStarted() != nil && e.GetTaskId() != c.root(session) {
			child = e.GetTaskId()
		}
		return e.GetParked() != nil
	})
	for range 2 { // it is idempotent
		resp, err := c.BackgroundTask(c.ctx(), &pb.BackgroundTaskRequest{SessionId: session, TaskId: child})
		if err != nil || !resp.GetTask().GetBackground() {
			t.Fatalf("got %v, %v", resp, err)
		}
	}
	if root := c.wait(session, ""); root.GetResult() != "gone on" || root.GetRun() != 1 {
		t.Errorf("the root ended run %d with %q", root.GetRun(), root.GetResult())
	}
	if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, TaskId: child}); err != nil {
		t.Fatal(err)
	}
	c.idle(session)
	if run := c.wait(session, "").GetRun(); run != 2 {
		t.Errorf("the root is at run %d, the end of its child should have started the second", run)
	}
	_, err := c.BackgroundTask(c.ctx(), &pb.BackgroundTaskRequest{SessionId: session, TaskId: child})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the child has ended: %v", err)
	}
	_, err = c.BackgroundTask(c.ctx(), &pb.BackgroundTaskRequest{SessionId: session, TaskId: c.root(session)})
	if status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the root: %v", err)
	}
	c.sound()
}
