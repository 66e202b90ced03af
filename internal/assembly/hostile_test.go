package assembly_test

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestAHostileWorker lets somebody who can reach the port claim runs and send
// whatever comes to mind. The orchestrator has to go on, and everything that is
// stored has to stay sound; the runs fail as poisoned or end by what he said.
func TestAHostileWorker(t *testing.T) {
	t.Parallel()
	a, c, addr := alone(t)
	rng := rand.New(rand.NewPCG(1, 2))
	claimed := 0
	var sessions []string
	for range 60 {
		session := c.create("go")
		if claimed += c.attack(rng, session.GetId(), session.GetRootTaskId()); t.Failed() {
			return
		}
		sessions = append(sessions, session.GetId())
	}
	if claimed == 0 {
		t.Error("no claim was granted: nothing was tried")
	}
	a.worker(addr, `steps: [{text: fine}]`, nil)
	for _, session := range sessions {
		c.wait(session, "")
	}
	c.sound()
}

// attack claims a run if it can and says twenty things; it reports whether the
// claim was granted.
func (c *client) attack(rng *rand.Rand, session, task string) int {
	c.t.Helper()
	stream, err := c.work.Work(c.ctx())
	if err != nil {
		c.t.Error(err)
		return 0
	}
	claim := &pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{
		SessionId: session, TaskId: task, Epoch: 1, Nonce: rng.Uint64(), WorkerId: "he", Protocol: 1,
	}}}
	granted := 0
	if stream.Send(claim) == nil {
		for range 3 { // welcome, assignment, transcript
			resp, err := stream.Recv()
			if err != nil || resp.GetRefused() != nil {
				break
			}
			if resp.GetAssignment() != nil {
				granted = 1
			}
		}
	}
	seq := int64(0)
	for range 20 {
		if rng.IntN(4) > 0 {
			seq++
		}
		req := whim(rng, task)
		req.Seq = seq
		if stream.Send(req) != nil {
			break // he was shown the door
		}
	}
	if err := stream.CloseSend(); err != nil {
		c.t.Error(err)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return granted
		}
	}
}

// whim is something that a worker may say, in or out of place.
func whim(rng *rand.Rand, task string) *pb.WorkRequest {
	block := int32(rng.IntN(5) - 2)
	text := &pb.Block{Kind: &pb.Block_Text{Text: &pb.TextBlock{Text: "so"}}}
	use := &pb.Block{Kind: &pb.Block_ToolUse{ToolUse: &pb.ToolUseBlock{Name: "task", InputJson: "{"}}}
	switch rng.IntN(12) {
	case 0:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_Append{Append: &pb.Append{Message: &pb.Message{Blocks: []*pb.Block{use, text, use}}}}}
	case 1:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_Append{Append: &pb.Append{}}}
	case 2:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_CallStarted{CallStarted: &pb.CallStarted{Block: block}}}
	case 3:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_CallClose{CallClose: &pb.CallClose{Result: &pb.ToolResultBlock{Block: block, Text: "x"}}}}
	case 4:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_CallClose{CallClose: &pb.CallClose{}}}
	case 5:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_Spawn{Spawn: &pb.Spawn{Children: []*pb.SpawnChild{
			{Block: block, Agent: "explore", Prompt: "x"}, {Block: block, Agent: "nobody"}, {Block: 2, ResumeTaskId: task, Prompt: "x"},
		}}}}
	case 6:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_WaitFor{WaitFor: &pb.WaitFor{Block: block, TaskId: task, Timeout: durationpb.New(-1)}}}
	case 7:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_Park{Park: &pb.Park{}}}
	case 8:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_End{End: &pb.End{}}}
	case 9:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_End{End: &pb.End{Outcome: &pb.End_Answer{Answer: &pb.Message{Blocks: []*pb.Block{use}}}}}}
	case 10:
		return &pb.WorkRequest{Kind: &pb.WorkRequest_Delta{Delta: &pb.TextDelta{Text: "x"}}}
	}
	return &pb.WorkRequest{}
}
