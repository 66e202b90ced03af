package assembly_test

import (
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// standing makes a slot of a stream wait for a run: it ends one, and offers to. A slot waits
// only where nothing is on the dispatch stream that nobody comes for, so the hint is taken off,
// and it is tried until it does.
func (c *client) standing(a *apart, nonce uint64) *hand {
	c.t.Helper()
	h := c.hand()
	h.features = []string{"given"}
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Hello{Hello: &pb.Hello{WorkerId: "by hand", Pool: "default", Slots: 1}}})
	for patient := c.ctx(); patient.Err() == nil; {
		root := c.first()
		until(c.t, "a hint", func() bool { return a.hinted() > 0 })
		if !h.claim(root) {
			c.t.Fatal("the claim was refused")
		}
		a.unhinted()
		resp := h.ask(offering(ending("done"), &pb.Takes{Nonce: nonce, StandBy: true}))
		if resp.GetEnded() == nil || resp.GetGiven() != nil {
			c.t.Fatalf("the end was answered with %v", resp)
		}
		if resp.GetStandsBy() {
			return h
		}
	}
	c.t.Fatal("the slot does not wait")
	return nil
}

// TestASlotStandsBy gives a slot that waits the root of a new session, without a hint and
// without a claim, and lets one that waits go when it asks for that.
func TestASlotStandsBy(t *testing.T) {
	t.Parallel()
	a, c, _ := alone(t)
	h := c.standing(a, 8)
	before := a.hinted()
	s := c.create("go")
	down := h.hear()
	if down.GetStoodDown() == nil || down.GetGiven().GetSessionId() != s.GetId() {
		t.Fatalf("the slot was told %v, want the root of %s", down, s.GetId())
	}
	assigned, sent := h.given(down)
	if len(sent) != 1 || assigned.GetTask().GetState() != pb.TaskState_TASK_STATE_RUNNING {
		t.Errorf("assigned was %v with %d messages", assigned.GetTask(), len(sent))
	}
	if after := a.hinted(); after > before {
		t.Errorf("there were %d hints, and are %d", before, after)
	}
	if resp := h.ask(offering(ending("done"), &pb.Takes{Nonce: 9, StandBy: true})); !resp.GetStandsBy() {
		t.Fatalf("the end was answered with %v", resp)
	}
	if got := c.wait(s.GetId(), "").GetState(); got != pb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the root has ended %s", got)
	}
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StandDown{StandDown: &pb.StandDown{}}})
	if down := h.hear(); down.GetStoodDown() == nil || down.GetGiven() != nil {
		t.Errorf("the slot was told %v", down)
	}
	if !h.claim(c.first()) {
		t.Error("a slot that waits no longer can't claim")
	}
	if resp := h.ask(ending("done")); resp.GetEnded() == nil || resp.GetStandsBy() {
		t.Errorf("the end was answered with %v", resp)
	}
	c.sound()
}

// TestAClaimOfASlotThatStandsBy ends the stream: it may have a run already.
func TestAClaimOfASlotThatStandsBy(t *testing.T) {
	t.Parallel()
	a, c, _ := alone(t)
	h := c.standing(a, 8)
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{WorkerId: "by hand", Protocol: 1}}})
	for {
		resp, err := h.stream.Recv()
		if err != nil {
			break
		}
		if resp.GetHeartbeat() == nil {
			t.Fatalf("the claim was answered with %v", resp)
		}
	}
	c.sound()
}

// TestAStreamBreaksWhileItsSlotStandsBy: nothing is given to it, and what was given to it just
// before is its worker's, which asks for it over the next stream.
func TestAStreamBreaksWhileItsSlotStandsBy(t *testing.T) {
	t.Parallel()
	a, c, _ := alone(t)
	h := c.standing(a, 8)
	h.cut()
	root := c.first() // given to a slot whose stream may not be known to be over, or ready
	again := c.hand()
	again.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Reattach{Reattach: &pb.Reattach{
		SessionId: root.session, TaskId: root.task, Epoch: 99, Nonce: 1, WorkerId: "by hand", TakesNonce: 8, Features: []string{"given"},
	}}})
	resp := again.hear()
	if resp.GetRefused() == nil {
		t.Fatalf("reattaching was answered with %v", resp)
	}
	if given := resp.GetGiven(); given != nil {
		root.nonce = 8
		if given.GetTaskId() != root.task {
			t.Errorf("given was %v, want %s", given, root.task)
		}
	}
	if !again.claim(root) {
		t.Fatal("the claim was refused")
	}
	if resp := again.ask(ending("done")); resp.GetEnded() == nil {
		t.Errorf("the end was answered with %v", resp)
	}
	c.sound()
}

// offer has a slot of a stream offer to wait for a run, without having had one.
func (h *hand) offer(nonce uint64) {
	h.t.Helper()
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StandBy{StandBy: &pb.Claim{
		Nonce: nonce, WorkerId: "by hand", Protocol: 1, Features: []string{"reattach", "given"},
	}}})
}

// joining is a stream of a slot of the pool.
func (c *client) joining() *hand {
	c.t.Helper()
	h := c.hand()
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Hello{Hello: &pb.Hello{WorkerId: "by hand", Pool: "default", Slots: 1}}})
	return h
}

// TestASlotThatReadsNoHintsStandsBy: it is given a run whose hint nobody reads, however many of them
// are on the stream.
func TestASlotThatReadsNoHintsStandsBy(t *testing.T) {
	t.Parallel()
	a, c, _ := alone(t)
	first, second := c.create("go"), c.create("go")
	until(t, "two hints", func() bool { return a.hinted() == 2 })
	h := c.joining()
	given := map[string]bool{}
	for nonce := range uint64(2) {
		h.offer(8 + nonce)
		down := h.hear()
		if down.GetStoodDown() == nil || down.GetGiven() == nil {
			t.Fatalf("the slot was told %v, want a run", down)
		}
		given[down.GetGiven().GetSessionId()] = true
		h.given(down)
		if resp := h.ask(ending("done")); resp.GetEnded() == nil {
			t.Errorf("the end was answered with %v", resp)
		}
	}
	if !given[first.GetId()] || !given[second.GetId()] {
		t.Errorf("given were runs of %v", given)
	}
	c.sound()
}

// TestASlotThatHasHadNoRunStandsBy: it is given what becomes ready, or told at once that it may
// not wait; whatever becomes of its stream, it can ask what it was given. Who offers twice is shown
// the door.
func TestASlotThatHasHadNoRunStandsBy(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	stranger := c.hand() // nobody knows whose runs it takes
	for range 2 {
		stranger.offer(7)
		if down := stranger.hear(); down.GetStoodDown() == nil || down.GetGiven() != nil {
			t.Fatalf("a slot that may not wait was told %v", down)
		}
	}
	stranger.cut()
	h := c.joining()
	h.offer(8)
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StandDown{StandDown: &pb.StandDown{}}})
	if down := h.hear(); down.GetStoodDown() == nil || down.GetGiven() != nil {
		t.Fatalf("a slot that was to wait no longer was told %v", down)
	}
	h.offer(9)
	s := c.create("go")
	down := h.hear()
	if down.GetStoodDown() == nil || down.GetGiven().GetSessionId() != s.GetId() {
		t.Fatalf("the slot was told %v, want the root of %s", down, s.GetId())
	}
	h.given(down)
	if resp := h.ask(ending("done")); resp.GetEnded() == nil {
		t.Errorf("the end was answered with %v", resp)
	}
	h.offer(10)
	h.cut()
	root := c.first() // given to a slot whose stream may not be known to be over, or ready
	again := c.joining()
	again.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Reattach{Reattach: &pb.Reattach{
		WorkerId: "by hand", TakesNonce: 10, Features: []string{"given"},
	}}})
	resp := again.hear()
	if resp.GetRefused() == nil {
		t.Fatalf("asking what it was given was answered with %v", resp)
	}
	if given := resp.GetGiven(); given != nil {
		root.nonce = 10
		if given.GetTaskId() != root.task {
			t.Errorf("given was %v, want %s", given, root.task)
		}
	}
	if !again.claim(root) {
		t.Fatal("the claim was refused")
	}
	again.offer(11) // while it has a run
	for err := error(nil); err == nil; {
		_, err = again.stream.Recv()
	}
	c.sound()
}
