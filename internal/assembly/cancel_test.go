package assembly_test

import (
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/tree"
)

// endless is a wide tree whose agents would think for an hour. Its four parents have slots before any
// of their children are there, which go before whoever has not begun.
const endless = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, for_each: numbers 4, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore}}]
  - when: {depth: 1, turn: 1}
    calls: [{tool: task, for_each: numbers 240, input: {description: 'leaf {{.Item}}', prompt: 'leaf {{.Item}}', subagent_type: explore}}]
  - when: {depth: 2}
    delay: 1h
    text: at last
  - text: again
`

func TestCancelEndsAWholeTree(t *testing.T) { // by itself: it is wide
	limits := tree.DefaultLimits()
	limits.Running = 16
	c := setup(t, endless, func(d *assembly.Dev) { d.Slots, d.Limits = 16, &limits })
	session := c.create("go").GetId()
	// Wait until all is spawned and every slot is in the middle of a model call.
	const nodes = 1 + 4 + 4*240
	started, thinking := 0, map[string]bool{}
	depth := map[string]int32{}
	c.events(session, func(e *pb.Event) bool {
		switch {
		case e.GetStarted() != nil:
			started++
			depth[e.GetTaskId()] = e.GetStarted().GetDepth()
		case e.GetDispatched() != nil && depth[e.GetTaskId()] == 2:
			thinking[e.GetTaskId()] = true
		}
		return started == nodes && len(thinking) == limits.Running
	})
	begun := time.Now()
	resp, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, Reason: "enough"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs were cancelled within %s", resp.GetCancelledRuns(), time.Since(begun))
	if resp.GetCancelledRuns() != nodes || resp.GetTask().GetReason() != pb.Reason_REASON_CANCELLED_BY_USER {
		t.Errorf("cancelled %d runs of %d: %v", resp.GetCancelledRuns(), nodes, resp.GetTask())
	}
	events, _ := c.idle(session)
	cancelled, results := int64(0), 0
	for _, e := range events {
		switch {
		case e.GetResult() != nil:
			results++
			cancelled = max(cancelled, e.GetSeq())
		case e.GetDispatched() != nil && cancelled > 0:
			t.Errorf("event %d: a worker took a run after the cancel", e.GetSeq())
		}
	}
	if results != nodes {
		t.Errorf("%d runs ended, want %d", results, nodes)
	}
	// All slots are free again: the next turn runs at once.
	sent, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "and now?"}})
	if err != nil || sent.GetTask().GetRun() != 2 {
		t.Fatalf("after the cancel: %v, %v", sent, err)
	}
	if root := c.wait(session, ""); root.GetResult() != "again" {
		t.Errorf("the next turn ended %s with %q", root.GetState(), root.GetResult())
	}
	c.sound()
}

// TestCancelOfAllThatRun cancels a tree all of whose runs are in the middle of a model
// call, on PostgreSQL, over and over: 200 of them, or a thousand.
func TestCancelOfAllThatRun(t *testing.T) { // by itself: it is wide
	children := often(200, 1000)
	nodes := 1 + children
	a := takeApart(t)
	a.database = pgtest.Start(t).Database(t)
	a.limits.Running = nodes
	_, addr := a.orchestrator()
	c := a.client(addr)
	a.worker(addr, `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, for_each: numbers `+strconv.Itoa(children)+`, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore, run_in_background: true}}]
  - {delay: 1h, text: at last}
`, func(w *assembly.Worker) { w.Slots = nodes })
	var acknowledged figures
	for range often(2, 20) {
		session := c.create("go").GetId()
		taken := map[string]bool{}
		c.events(session, func(e *pb.Event) bool {
			if e.GetDispatched() != nil {
				taken[e.GetTaskId()] = true
			}
			return len(taken) == nodes
		})
		begun := time.Now()
		resp, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session})
		if err != nil {
			t.Fatal(err)
		}
		acknowledged = append(acknowledged, time.Since(begun))
		if int(resp.GetCancelledRuns()) != nodes {
			t.Errorf("%d runs were cancelled, want %d", resp.GetCancelledRuns(), nodes)
		}
		events, _ := c.idle(session)
		results := 0
		for _, e := range events {
			switch {
			case e.GetResult() != nil:
				results++
			case e.GetDispatched() != nil && results > 0:
				t.Errorf("event %d: a worker took a run after the cancel", e.GetSeq())
			}
		}
		if results != nodes {
			t.Errorf("%d runs ended, want %d", results, nodes)
		}
	}
	c.sound()
	t.Logf("%d running runs, acknowledged as ended after %s", nodes, acknowledged)
}

func TestCancelOfAChildIsAnAnswer(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, input: {description: slow, prompt: slow, subagent_type: explore}}]
  - when: {depth: 0}
    text: 'it was {{(json (result "task" 0)).status}}: {{(json (result "task" 0)).error}}'
  - {delay: 1h, text: at last}
`, nil)
	session := c.create("go").GetId()
	child := ""
	c.events(session, func(e *pb.Event) bool {
		if e.GetDispatched() != nil && e.GetTaskId() != c.root(session) {
			child = e.GetTaskId()
		}
		return child != ""
	})
	if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, TaskId: child, Run: 2}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("cancelling a run that there is not yet: %v", err)
	}
	for range 2 { // cancelling again changes nothing
		if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, TaskId: child, Run: 1, Reason: "too slow"}); err != nil {
			t.Fatal(err)
		}
	}
	if root := c.wait(session, ""); root.GetResult() != "it was cancelled: too slow" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
	_, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, TaskId: session})
	if status.Code(err) != codes.NotFound {
		t.Errorf("cancelling what is no task: %v", err)
	}
}
