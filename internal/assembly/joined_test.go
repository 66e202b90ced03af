package assembly_test

import (
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestResponsesAreJoined for a worker that takes several in one message, and for no other: an
// assignment comes with its transcript, and both come with the end of the run before.
func TestResponsesAreJoined(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	for name, want := range map[string]struct{ claimed, given int }{"joined": {1, 0}, "given": {2, 2}} {
		h := c.hand()
		h.features = []string{name}
		before := h.messages
		if !h.claim(c.first()) {
			t.Fatal("the claim was refused")
		}
		if got := h.messages - before; got != want.claimed {
			t.Errorf("%s: the claim was answered in %d messages, want %d", name, got, want.claimed)
		}
		h.ask(ending("done"))
		_, parked := c.spawned(h)
		before = h.messages
		h.given(parked)
		if got := h.messages - before; got != want.given {
			t.Errorf("%s: %d messages came after that which gave a child, want %d", name, got, want.given)
		}
		h.ask(ending("done"))
	}
}

// TestWhatAnAnswerShows reaches those who watch, as if it had come before the answer.
func TestWhatAnAnswerShows(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	h, root := c.hand(), c.first()
	if !h.claim(root) {
		t.Fatal("the claim was refused")
	}
	watch, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: root.session, IncludeDeltas: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil { // from now on it is shown what models write
		t.Fatal(err)
	}
	end := ending("done")
	end.Shows = &pb.TextDelta{Text: "so"}
	h.ask(end)
	for {
		step, err := watch.Recv()
		if err != nil {
			t.Fatalf("nothing was shown: %v", err)
		}
		if d := step.GetDelta(); d.GetText() == "so" && d.GetTaskId() == root.task {
			return
		}
	}
}
