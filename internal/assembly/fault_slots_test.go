package assembly_test

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestParkedParentsHoldNoSlot parks many parents over one stream, each of them
// waiting for a child that nobody has begun. The slot stays free for others, and
// one slot is enough to bring all of them to an end.
func TestParkedParentsHoldNoSlot(t *testing.T) { // by itself: it is wide
	a, c, addr := alone(t)
	parents := often(200, 10_000)
	h := c.hand()
	sessions := make([]string, parents)
	for i := range sessions {
		parent := c.first()
		sessions[i] = parent.session
		if !h.claim(parent) {
			t.Fatalf("the claim of parent %d was refused", i)
		}
		for _, req := range []*pb.WorkRequest{calling("task", `{}`), spawning(0)} {
			if resp := h.ask(req); resp.GetAck() == nil {
				t.Fatalf("parent %d was answered with %v", i, resp)
			}
		}
		if resp := h.ask(parking()); resp.GetParked() == nil {
			t.Fatalf("parent %d was told %v when it wanted to park", i, resp)
		}
	}
	parked := 0
	for _, session := range sessions {
		for _, task := range c.tasks(session) {
			switch {
			case task.GetDepth() == 0 && task.GetState() == pb.TaskState_TASK_STATE_WAITING:
				parked++
			case task.GetDepth() == 0 || task.GetState() != pb.TaskState_TASK_STATE_PENDING:
				t.Errorf("the task at depth %d is %s", task.GetDepth(), task.GetState())
			}
		}
	}
	if parked != parents {
		t.Errorf("%d parents are parked at once, want %d", parked, parents)
	}
	other := c.first()
	if !h.claim(other) {
		t.Fatal("the slot is not free for another run")
	}
	if resp := h.ask(ending("free")); resp.GetEnded() == nil {
		t.Errorf("the other run was answered with %v", resp)
	}
	begun := time.Now()
	a.worker(addr, fanOut("0", "0"), func(w *assembly.Worker) { w.Slots = 1 })
	for _, session := range sessions {
		w := c.follow(session, func(*pb.Event) {})
		checkTree(t, c.tasks(session), w.events, 2)
	}
	t.Logf("%d parents were parked at once; one slot finished them in %s", parked, time.Since(begun).Round(time.Millisecond))
	c.sound()
}

// TestOneSlotFinishesAChain gives one slot a tree in which eight runs wait for
// each other.
func TestOneSlotFinishesAChain(t *testing.T) {
	t.Parallel()
	const deepest = 8
	limits := tree.DefaultLimits()
	limits.Depth = deepest
	c := setup(t, `
steps:
  - when: {turn: 1, depth: ..7}
    calls: [{tool: task, input: {description: deeper, prompt: deeper, subagent_type: general-purpose}}]
  - text: done
`, func(d *assembly.Dev) { d.Slots, d.Limits = 1, &limits })
	session := c.create("go").GetId()
	c.wait(session, "")
	events, _ := c.idle(session)
	checkTree(t, c.tasks(session), events, deepest+1)
	waiting, most := 0, 0
	for _, e := range events {
		switch {
		case e.GetParked() != nil:
			waiting++
		case e.GetReady() != nil && e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_SATISFIED:
			waiting--
		}
		most = max(most, waiting)
	}
	if most != deepest {
		t.Errorf("%d runs waited at once, want %d", most, deepest)
	}
	c.sound()
}
