package assembly_test

import (
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestHeldTranscript has a parent wake at a worker that holds what it was given before. It
// is sent what is new; all of it, if what it holds is something else.
func TestHeldTranscript(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	for name, test := range map[string]struct {
		held func(*pb.TranscriptHeld)
		sent int // of three messages: the prompt, the answer with the call, its result
	}{
		"the beginning":      {func(*pb.TranscriptHeld) {}, 2},
		"nothing":            {func(h *pb.TranscriptHeld) { h.Messages = 0 }, 3},
		"another beginning":  {func(h *pb.TranscriptHeld) { h.FirstId = "other" }, 3},
		"another end":        {func(h *pb.TranscriptHeld) { h.LastId = "other" }, 3},
		"more than there is": {func(h *pb.TranscriptHeld) { h.Messages = 1000 }, 3},
		"less than nothing":  {func(h *pb.TranscriptHeld) { h.Messages = -1 }, 3},
	} {
		parent := c.first()
		h := c.hand()
		assigned, first := h.claimWith(parent, nil)
		if assigned == nil || len(first) != 1 || assigned.GetHeldMessages() != 0 {
			t.Fatalf("%s: the first claim was answered with %v and %d messages", name, assigned, len(first))
		}
		h.ask(calling("task", `{}`))
		h.ask(spawning(0))
		if resp := h.ask(parking()); resp.GetParked() == nil {
			t.Fatalf("%s: parking was answered with %v", name, resp)
		}
		for _, task := range c.tasks(parent.session) {
			if task.GetDepth() == 1 && !h.claim(attempt{parent.session, task.GetId(), 1, 7}) {
				t.Fatalf("%s: the child's claim was refused", name)
			}
		}
		if resp := h.ask(ending("done")); resp.GetEnded() == nil {
			t.Fatalf("%s: the child's end was answered with %v", name, resp)
		}
		held := &pb.TranscriptHeld{Messages: 1, FirstId: first[0].GetId(), LastId: first[0].GetId()}
		test.held(held)
		again, sent := h.claimWith(attempt{parent.session, parent.task, 2, 2}, held)
		if again == nil || len(sent) != test.sent || int(again.GetHeldMessages()) != 3-test.sent {
			t.Fatalf("%s is held: %d messages are sent, want %d; %v", name, len(sent), test.sent, again)
		}
		if last := sent[len(sent)-1]; last.GetOrdinal() != 3 || last.GetBlocks()[0].GetToolResult().GetText() == "" {
			t.Errorf("%s is held: the last message is %v, want the call's result", name, last)
		}
		if resp := h.ask(ending("all done")); resp.GetEnded() == nil {
			t.Fatalf("%s: the end was answered with %v", name, resp)
		}
	}
	c.sound()
}
