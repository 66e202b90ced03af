package assembly_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// hand is a worker's stream that is led by hand.
type hand struct {
	t      *testing.T
	stream pb.WorkerService_WorkClient
	cut    context.CancelFunc
	seq    int64

	replica  string   // at the other end
	features []string // beside "reattach"

	rest     []*pb.WorkResponse // of the last message
	messages int                // with anything but heartbeats
}

// attempt is what a worker holds, by hand.
type attempt struct {
	session, task string
	epoch         int64
	nonce         uint64
}

func (c *client) hand() *hand {
	c.t.Helper()
	ctx, cut := context.WithCancel(c.t.Context())
	c.t.Cleanup(cut)
	stream, err := c.work.Work(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	h := &hand{t: c.t, stream: stream, cut: cut}
	first := h.hear()
	if first.GetWelcome() == nil {
		c.t.Fatalf("the stream starts with %v", first)
	}
	h.replica = first.GetWelcome().GetReplicaId()
	return h
}

// hear gives the next response that is no heartbeat.
func (h *hand) hear() *pb.WorkResponse {
	h.t.Helper()
	for len(h.rest) == 0 {
		resp, err := h.stream.Recv()
		if err != nil {
			h.t.Fatal(err)
		}
		if resp.GetHeartbeat() == nil {
			h.rest = slices.Collect(wire.SplitResponses(resp))
			h.messages++
		}
	}
	next := h.rest[0]
	h.rest = h.rest[1:]
	return next
}

func (h *hand) send(req *pb.WorkRequest) {
	h.t.Helper()
	if err := h.stream.Send(req); err != nil {
		h.t.Fatal(err)
	}
}

// ask sends a request under the next seq, and gives the answer.
func (h *hand) ask(req *pb.WorkRequest) *pb.WorkResponse {
	h.t.Helper()
	h.seq++
	return h.again(h.seq, req)
}

// again sends a request under a seq, and gives the answer.
func (h *hand) again(seq int64, req *pb.WorkRequest) *pb.WorkResponse {
	h.t.Helper()
	req.Seq = seq
	h.send(req)
	return h.hear()
}

// claim asks for a run and reports whether it was granted.
func (h *hand) claim(a attempt) bool {
	h.t.Helper()
	assigned, _ := h.claimWith(a, nil)
	return assigned != nil
}

// claimWith asks for a run of whose transcript something is held. It gives the assignment,
// nil if the claim was refused, and what is sent of the transcript.
func (h *hand) claimWith(a attempt, held *pb.TranscriptHeld) (assigned *pb.Assignment, sent []*pb.Message) {
	h.t.Helper()
	h.seq = 0
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{
		SessionId: a.session, TaskId: a.task, Epoch: a.epoch, Nonce: a.nonce, WorkerId: "by hand",
		Protocol: 1, Features: append([]string{"reattach"}, h.features...), Held: held,
	}}})
	resp := h.hear()
	if resp.GetRefused() != nil {
		return nil, nil
	}
	return h.assigned(resp)
}

// assigned hears the transcript of an assignment.
func (h *hand) assigned(resp *pb.WorkResponse) (assigned *pb.Assignment, sent []*pb.Message) {
	h.t.Helper()
	if resp.GetAssignment() == nil {
		h.t.Fatalf("the claim was answered with %v", resp)
	}
	for {
		chunk := h.hear().GetTranscript()
		if sent = append(sent, chunk.GetMessages()...); chunk.GetLast() {
			return resp.GetAssignment(), sent
		}
	}
}

// reattach goes on with an attempt, and reports what was stored of it; -1 if it
// was refused.
func (h *hand) reattach(a attempt, known int32) int64 {
	h.t.Helper()
	h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Reattach{Reattach: &pb.Reattach{
		SessionId: a.session, TaskId: a.task, Epoch: a.epoch, Nonce: a.nonce, KnownOrdinal: known, Features: h.features,
	}}})
	resp := h.hear()
	switch {
	case resp.GetRefused().GetCause() == pb.RefusedCause_REFUSED_CAUSE_STALE:
		return -1
	case resp.GetReattached() == nil:
		h.t.Fatalf("the reattachment was answered with %v", resp)
	}
	h.seq = resp.GetReattached().GetLastSeq()
	return h.seq
}

// Requests by hand.

func calling(tool string, inputs ...string) *pb.WorkRequest {
	m := &pb.Message{}
	for i, input := range inputs {
		m.Blocks = append(m.Blocks, &pb.Block{Kind: &pb.Block_ToolUse{ToolUse: &pb.ToolUseBlock{
			ProviderId: fmt.Sprint("call ", i), Name: tool, InputJson: input,
		}}})
	}
	return &pb.WorkRequest{Kind: &pb.WorkRequest_Append{Append: &pb.Append{Message: m}}}
}

func closing(block int32, text string) *pb.WorkRequest {
	return &pb.WorkRequest{Kind: &pb.WorkRequest_CallClose{CallClose: &pb.CallClose{
		Result: &pb.ToolResultBlock{Block: block, Text: text},
	}}}
}

func spawning(blocks ...int32) *pb.WorkRequest {
	s := &pb.Spawn{}
	for _, b := range blocks {
		s.Children = append(s.Children, &pb.SpawnChild{Block: b, Agent: "explore", Description: "child", Prompt: "go"})
	}
	return &pb.WorkRequest{Kind: &pb.WorkRequest_Spawn{Spawn: s}}
}

func parking() *pb.WorkRequest { return &pb.WorkRequest{Kind: &pb.WorkRequest_Park{Park: &pb.Park{}}} }

func ending(text string) *pb.WorkRequest {
	return &pb.WorkRequest{Kind: &pb.WorkRequest_End{End: &pb.End{Outcome: &pb.End_Answer{Answer: &pb.Message{
		Blocks: []*pb.Block{{Kind: &pb.Block_Text{Text: &pb.TextBlock{Text: text}}}},
	}}}}}
}

// first is the first attempt of a new session's root.
func (c *client) first() attempt {
	c.t.Helper()
	s := c.create("go")
	return attempt{s.GetId(), s.GetRootTaskId(), 1, 1}
}

// alone starts an orchestrator without workers.
func alone(t *testing.T) (*apart, *client, string) {
	t.Helper()
	a := takeApart(t)
	_, addr := a.orchestrator()
	return a, a.client(addr), addr
}

// TestAZombieIsRefused lets workers go silent until their runs are with others, and
// then come back and say, over and over, all that they had to say.
func TestAZombieIsRefused(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	pauses, reports := often(10, 100), 25
	old := make([]attempt, pauses)
	for i := range old {
		old[i] = c.first()
		old[i].nonce = uint64(i + 1)
		h := c.hand()
		if !h.claim(old[i]) {
			t.Fatal("the first claim was refused")
		}
		h.cut()
	}
	refused := 0
	for _, a := range old {
		c.events(a.session, func(e *pb.Event) bool {
			return e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED
		})
		living, next := c.hand(), attempt{a.session, a.task, 2, a.nonce + 1000}
		if !living.claim(next) {
			t.Fatal("the second claim was refused")
		}
		zombie := c.hand()
		for i := range reports {
			stolen := next
			stolen.nonce = rand.Uint64()
			for _, say := range []func() bool{
				func() bool { return zombie.reattach(a, 1) >= 0 },
				func() bool { return zombie.claim(a) },
				func() bool { return zombie.claim(stolen) },
				func() bool { return zombie.reattach(stolen, 1) >= 0 },
			} {
				if say() {
					t.Errorf("report %d of a stale attempt was accepted", i)
				}
				refused++
			}
			// What it says without an attempt is for nobody.
			zombie.send(ending("brains"))
		}
		if resp := living.ask(ending("alive")); resp.GetEnded() == nil {
			t.Errorf("the living worker was told %v", resp)
		}
		if root := c.wait(a.session, ""); root.GetResult() != "alive" || root.GetEpoch() != 2 {
			t.Errorf("the run ended with %q at epoch %d", root.GetResult(), root.GetEpoch())
		}
		if n := len(c.transcript(a.session, a.task)); n != 2 {
			t.Errorf("%d messages, want the question and the answer", n)
		}
	}
	t.Logf("%d attempts came back; %d stale reports were refused", pauses, refused)
	c.sound()
}

// TestAMovedAttemptIsLeftBehind goes on with attempts over other streams: what the
// old streams say, under the token that is still valid, is refused.
func TestAMovedAttemptIsLeftBehind(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	moves := often(50, 1000)
	a := c.first()
	h := c.hand()
	if !h.claim(a) {
		t.Fatal("the claim was refused")
	}
	for range moves {
		next := c.hand()
		if stored := next.reattach(a, 1); stored != 0 {
			t.Fatalf("%d requests were stored before the move", stored)
		}
		if resp := h.ask(ending("from the past")); resp.GetLost() == nil {
			t.Fatalf("the stream that was left was told %v", resp)
		}
		h.cut()
		h = next
	}
	if resp := h.ask(ending("here")); resp.GetEnded() == nil {
		t.Errorf("the stream with the attempt was told %v", resp)
	}
	if root := c.wait(a.session, ""); root.GetResult() != "here" || root.GetEpoch() != 1 {
		t.Errorf("the run ended with %q at epoch %d", root.GetResult(), root.GetEpoch())
	}
	c.sound()
}

// TestAnswersAreGivenAgain loses answers and sends requests again over other
// streams, also those whose answers have come.
func TestAnswersAreGivenAgain(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	rng := rand.New(rand.NewPCG(11, 11))
	runs := often(20, 300)
	lost, repeated := 0, 0
	for range runs {
		a := c.first()
		h := c.hand()
		if !h.claim(a) {
			t.Fatal("the claim was refused")
		}
		story := []*pb.WorkRequest{
			calling("ls", `{}`, `{}`), closing(0, "first"), closing(1, "second"),
			calling("task", `{}`, `{}`, `{}`), closing(0, "third"), spawning(1, 2),
		}
		answers := make([]*pb.WorkResponse, len(story)+1)
		for i := 1; i <= len(story); i++ {
			drop := rng.IntN(10) < 3
			if drop {
				story[i-1].Seq = int64(i)
				h.send(story[i-1])
				lost++
			} else {
				answers[i] = h.again(int64(i), story[i-1])
			}
			h.cut()
			h = c.hand()
			stored := h.reattach(a, 4)
			for j := 1; j <= i; j++ {
				resp := h.again(int64(j), story[j-1])
				if resp.GetAck() == nil {
					t.Fatalf("request %d, sent again, was answered with %v", j, resp)
				}
				if int64(j) <= stored {
					repeated++
				}
				if j == i && answers[i] != nil {
					sameAnswer(t, resp, answers[i])
				}
			}
		}
		h.seq = int64(len(story))
		if resp := h.ask(parking()); resp.GetParked() == nil {
			t.Fatalf("parking was answered with %v", resp)
		}
		h.cut()
		if all := c.transcript(a.session, a.task); len(all) != 4 {
			t.Errorf("%d messages, want 4: %v", len(all), all)
		}
		if all := c.tasks(a.session); len(all) != 3 {
			t.Errorf("%d tasks, want 3", len(all))
		}
	}
	if lost == 0 || repeated == 0 {
		t.Errorf("%d answers were lost, %d requests repeated", lost, repeated)
	}
	t.Logf("%d runs: %d answers were lost, %d stored requests sent again", runs, lost, repeated)
	c.sound()
}

// sameAnswer compares an answer with the one that was given again: what the worker
// needs to go on has to be in it.
func sameAnswer(t *testing.T, again, was *pb.WorkResponse) {
	t.Helper()
	if again.GetSeq() != was.GetSeq() || again.GetAck().GetOrdinal() != was.GetAck().GetOrdinal() ||
		again.GetAck().GetBoundary().GetOrdinal() != was.GetAck().GetBoundary().GetOrdinal() {
		t.Errorf("answered again with %v, was %v", again, was)
	}
}
