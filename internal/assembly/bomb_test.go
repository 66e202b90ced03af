package assembly_test

import (
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// bomb has every agent spawn a hundred children, again and again, until it is told
// no.
const bomb = `
steps:
  - when: {last: 'cap is reached|are queued'}
    text: 'I was told: {{.Last}}'
  - calls: [{tool: task, for_each: numbers 100, input: {description: bomb, prompt: again, subagent_type: general-purpose}}]
`

// TestForkBomb: no cap is passed at any moment, those who hit one are told which,
// and the tree ends.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits tree.Limits // caps on sizes only
		told   []*tree.Error
	}{
		"Sizes": {
			tree.Limits{Depth: 2, Width: 12, Total: 60, Running: 4},
			[]*tree.Error{tree.ErrTooDeep, tree.ErrTooWide, tree.ErrTooMany},
		},
		"Queue": {
			tree.Limits{Depth: 2, Width: 100, Total: 1000, Running: 4, Queue: 20},
			[]*tree.Error{tree.ErrTooDeep, tree.ErrQueue},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := tree.DefaultLimits()
			limits.Depth, limits.Width, limits.Total, limits.Running = test.limits.Depth, test.limits.Width, test.limits.Total, test.limits.Running
			limits.Queue = test.limits.Queue
			c := setup(t, bomb, func(d *assembly.Dev) { d.Limits = &limits })
			session := c.create("begin").GetId()
			events, _ := c.idle(session)
			within(t, limits, events)
			tasks := c.tasks(session)
			told := c.refusals(session, tasks)
			for _, err := range test.told {
				if told[err.Error()] == 0 {
					t.Errorf("nobody was told that %s", err)
				}
			}
			t.Logf("%d tasks; told: %v", len(tasks), told)
			c.sound()
		})
	}
}

// refusals checks that every task has ended with what it was told, and that each of
// its calls gave it a child or a refusal; it counts those by their cap.
func (c *client) refusals(session string, tasks []*pb.Task) map[string]int {
	c.t.Helper()
	children := map[string]int{}
	for _, task := range tasks {
		children[task.GetParentId()]++
	}
	all := map[string]int{}
	for _, task := range tasks {
		if task.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			c.t.Errorf("a task ended %s: %s", task.GetState(), task.GetDetail())
		}
		calls, refused, said := 0, 0, ""
		for _, m := range c.transcript(session, task.GetId()) {
			for _, b := range m.GetBlocks() {
				if r := b.GetToolResult(); r.GetIsError() {
					why, _, _ := strings.Cut(r.GetText(), ":")
					all[why]++
					refused++
				}
				if b.GetToolUse() != nil {
					calls++
				}
				said = b.GetText().GetText()
			}
		}
		if calls != children[task.GetId()]+refused || refused == 0 {
			c.t.Errorf("%d calls, %d children and %d refusals", calls, children[task.GetId()], refused)
		}
		if !strings.HasPrefix(said, "I was told: ") {
			c.t.Errorf("a task said %q", said)
		}
	}
	return all
}

// within holds the caps against every prefix of a log.
func within(t *testing.T, limits tree.Limits, events []*pb.Event) {
	t.Helper()
	states := map[string]pb.TaskState{} // of tasks that are pending or running
	children := map[string]int{}
	count := func(state pb.TaskState) (n int) {
		for _, s := range states {
			if s == state {
				n++
			}
		}
		return n
	}
	total := 0
	for _, e := range events {
		switch k := e.GetKind().(type) {
		case *pb.Event_Started:
			states[e.GetTaskId()] = pb.TaskState_TASK_STATE_PENDING
			children[k.Started.GetParentId()]++
			total++
			queued := count(pb.TaskState_TASK_STATE_PENDING)
			if total > limits.Total || int(k.Started.GetDepth()) > limits.Depth || children[k.Started.GetParentId()] > limits.Width ||
				limits.Queue > 0 && queued > limits.Queue {
				t.Fatalf("event %d: %d tasks, depth %d, %d children, %d queued", e.GetSeq(), total, k.Started.GetDepth(), children[k.Started.GetParentId()], queued)
			}
		case *pb.Event_Dispatched:
			states[e.GetTaskId()] = pb.TaskState_TASK_STATE_RUNNING
			if n := count(pb.TaskState_TASK_STATE_RUNNING); n > limits.Running {
				t.Fatalf("event %d: %d run", e.GetSeq(), n)
			}
		case *pb.Event_Ready:
			states[e.GetTaskId()] = pb.TaskState_TASK_STATE_PENDING
		case *pb.Event_Parked, *pb.Event_Result:
			delete(states, e.GetTaskId())
		}
	}
}
