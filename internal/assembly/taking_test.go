package assembly_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// offering makes a request offer the slot.
func offering(req *pb.WorkRequest, takes *pb.Takes) *pb.WorkRequest {
	req.Takes = takes
	return req
}

// given hears the assignment of a run that the slot has got with an answer, and what is
// sent of its transcript.
func (h *hand) given(resp *pb.WorkResponse) (*pb.Assignment, []*pb.Message) {
	h.t.Helper()
	h.seq = 0
	assigned, sent := h.assigned(h.hear())
	if task := assigned.GetTask(); task.GetId() != resp.GetGiven().GetTaskId() || task.GetEpoch() != resp.GetGiven().GetEpoch() {
		h.t.Fatalf("given was %v, assigned %v", resp.GetGiven(), assigned.GetTask())
	}
	return assigned, sent
}

// cancel cancels a task, or the root, with all below it.
func (c *client) cancel(session, task string) {
	c.t.Helper()
	if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: session, TaskId: task}); err != nil {
		c.t.Fatal(err)
	}
}

// spawned makes the root of a new session park on a child, and offer its slot. It gives the
// root, and the answer. A slot gets nothing while others may wait, so it is tried until
// it does.
func (c *client) spawned(h *hand) (root attempt, parked *pb.WorkResponse) {
	c.t.Helper()
	for patient := c.ctx(); patient.Err() == nil; {
		root = c.first()
		if !h.claim(root) {
			c.t.Fatal("the root's claim was refused")
		}
		h.seq = 3
		for i, req := range []*pb.WorkRequest{calling("task", `{}`), spawning(0), offering(parking(), &pb.Takes{Nonce: 8})} {
			req.Seq = int64(i + 1)
			h.send(req)
		}
		h.hear()
		h.hear()
		if parked = h.hear(); parked.GetParked() == nil {
			c.t.Fatalf("parking was answered with %v", parked)
		}
		if parked.GetGiven() != nil {
			return root, parked
		}
		c.cancel(root.session, "") // what is left would have the next slot
	}
	c.t.Fatal("no slot got a child")
	return root, nil
}

// TestASlotTakesTheNextRun has the slot of a parent get its child, and that of the child the
// parent, of whose transcript the worker holds the beginning.
func TestASlotTakesTheNextRun(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	h := c.hand()
	root, parked := c.spawned(h)
	assigned, sent := h.given(parked)
	if assigned.GetTask().GetParentId() != root.task || len(sent) != 1 {
		t.Fatalf("the slot has got %v with %d messages, want the child", assigned.GetTask(), len(sent))
	}
	first := c.transcript(root.session, root.task)[0].GetId()
	ended := h.ask(offering(ending("found"), &pb.Takes{
		Nonce: 9, HeldTaskId: root.task, Held: &pb.TranscriptHeld{Messages: 1, FirstId: first, LastId: first},
	}))
	if ended.GetEnded() == nil || ended.GetGiven() == nil {
		t.Fatalf("the child's end was answered with %v", ended)
	}
	assigned, sent = h.given(ended)
	if assigned.GetTask().GetId() != root.task || assigned.GetHeldMessages() != 1 || len(sent) != 2 {
		t.Fatalf("the slot has got %v with %d messages, want the parent", assigned.GetTask(), len(sent))
	}
	if got := sent[1].GetBlocks()[0].GetToolResult().GetText(); got == "" {
		t.Errorf("the last message is %v, want the child's result", sent[1])
	}
	if resp := h.ask(offering(ending("done"), &pb.Takes{Nonce: 10})); resp.GetEnded() == nil || resp.GetGiven() != nil {
		t.Errorf("the root's end was answered with %v", resp)
	}
	if got := c.wait(root.session, "").GetState(); got != pb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the root has ended %s", got)
	}
	c.sound()
}

// TestASlotTakesWhatWaits has one slot carry two trees: each end is answered with the run
// that has waited longest, of the same session or of another one. What has waited for too
// long is on the dispatch stream, so it is tried until nothing has.
func TestASlotTakesWhatWaits(t *testing.T) {
	t.Parallel()
	a, c, _ := alone(t)
	h := c.hand()
	for patient := c.ctx(); patient.Err() == nil; {
		if c.takesInTurn(a, h) {
			c.sound()
			return
		}
	}
	t.Fatal("no slot got all runs in their turn")
}

// hinted counts the hints that were put on the dispatch stream, which no worker takes off.
func (a *apart) hinted() (n int) {
	a.t.Helper()
	streams, err := a.redis.Keys(a.t.Context(), "coppice:*:ready:*").Result()
	for _, stream := range streams {
		var entries int64
		entries, err = a.redis.XLen(a.t.Context(), stream).Result()
		n += int(entries)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// unhinted takes all hints off the dispatch stream.
func (a *apart) unhinted() {
	a.t.Helper()
	if err := a.redis.FlushAll(a.t.Context()).Err(); err != nil {
		a.t.Fatal(err)
	}
}

// takesInTurn reports whether a slot has got whatever waited with the end of what it had.
func (c *client) takesInTurn(a *apart, h *hand) bool {
	c.t.Helper()
	first := c.first()
	until(c.t, "a hint", func() bool { return a.hinted() > 0 })
	if !h.claim(first) {
		c.t.Fatal("the claim was refused")
	}
	a.unhinted()
	h.ask(calling("task", `{}`, `{}`, `{}`))
	h.ask(spawning(0, 1, 2))
	second := c.first()
	resp := h.ask(offering(parking(), &pb.Takes{Nonce: 20}))
	var order []string
	for resp.GetGiven() != nil {
		assigned, _ := h.given(resp)
		order = append(order, assigned.GetTask().GetId())
		resp = h.ask(offering(ending("done"), &pb.Takes{Nonce: uint64(21 + len(order))}))
	}
	want := []string{second.task, first.task}
	for _, task := range slices.Backward(c.tasks(first.session)) {
		if task.GetDepth() == 1 {
			want = slices.Insert(want, 0, task.GetId())
		}
	}
	if len(order) < len(want) {
		c.cancel(first.session, "")
		c.cancel(second.session, "")
		for range a.hinted() { // as a worker comes for them
			h.claim(first)
		}
		a.unhinted()
		return false
	}
	if !slices.Equal(order, want) {
		c.t.Errorf("the slot has carried %v, want %v", order, want)
	}
	return true
}

// TestAGivenRunIsClaimedAgain breaks the stream before the assignment is there: over another
// one the worker claims the run, as often as it has to. A run that the slot has got and was
// cancelled meanwhile is lost, as any other.
func TestAGivenRunIsClaimedAgain(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	h := c.hand()
	_, parked := c.spawned(h)
	given := parked.GetGiven()
	h.cut()
	var again []*pb.Assignment
	for range 2 {
		h = c.hand()
		assigned, _ := h.claimWith(attempt{given.GetSessionId(), given.GetTaskId(), given.GetEpoch(), 8}, nil)
		if assigned == nil {
			t.Fatal("the claim was refused")
		}
		again = append(again, assigned)
	}
	if !proto.Equal(again[0].GetTask(), again[1].GetTask()) {
		t.Errorf("assigned were %v and %v", again[0].GetTask(), again[1].GetTask())
	}
	c.cancel(given.GetSessionId(), given.GetTaskId())
	if resp := h.hear(); resp.GetLost() == nil {
		t.Errorf("after the cancellation %v was heard", resp)
	}
	c.sound()
}
