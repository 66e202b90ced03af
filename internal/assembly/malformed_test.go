package assembly_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// claimed claims a run by hand and reads what comes with it.
func (c *client) claimed(session, task string, epoch int64) grpc.BidiStreamingClient[pb.WorkRequest, pb.WorkResponse] {
	c.t.Helper()
	stream, err := c.work.Work(c.ctx())
	if err != nil {
		c.t.Fatal(err)
	}
	if err := stream.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{
		SessionId: session, TaskId: task, Epoch: epoch, Nonce: 1, WorkerId: "by hand", Protocol: 1,
	}}}); err != nil {
		c.t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if err != nil || resp.GetRefused() != nil {
			c.t.Fatalf("epoch %d was not claimed: %v, %v", epoch, resp, err)
		}
		if resp.GetTranscript().GetLast() {
			return stream
		}
	}
}

// TestAWorkerThatMakesNoSense: a request that nobody can read is a strike against
// whoever sent it, so a run on which workers stumble so ends. What a worker shows
// is cut into pieces.
func TestAWorkerThatMakesNoSense(t *testing.T) {
	t.Parallel()
	c := setup(t, "steps: [{when: {prompt: hold}, delay: 10m, text: held}, {text: fine}]", func(d *assembly.Dev) { d.Slots = 1 })
	hold := c.create("hold").GetId()
	c.events(hold, func(e *pb.Event) bool { return e.GetDispatched() != nil })
	session := c.create("go")
	watch, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session.GetId(), IncludeDeltas: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	for epoch := int64(1); epoch <= 3; epoch++ {
		stream := c.claimed(session.GetId(), session.GetRootTaskId(), epoch)
		text := strings.Repeat("aé", 20_000)
		if epoch == 1 {
			if err := stream.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Delta{Delta: &pb.TextDelta{Text: text}}}); err != nil {
				t.Fatal(err)
			}
			shown(t, watch, text)
		}
		if err := stream.Send(&pb.WorkRequest{Seq: 1, Kind: &pb.WorkRequest_End{End: &pb.End{}}}); err != nil {
			t.Fatal(err)
		}
		for lost := false; !lost; {
			resp, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			lost = resp.GetLost() != nil
		}
	}
	if root := c.wait(session.GetId(), ""); root.GetReason() != pb.Reason_REASON_POISONED {
		t.Errorf("the run ended %s, %s", root.GetState(), root.GetReason())
	}
	if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: hold}); err != nil {
		t.Error(err)
	}
	c.sound()
}

// shown reads pieces of a text until it is there.
func shown(t *testing.T, watch grpc.ServerStreamingClient[pb.WatchSessionResponse], want string) {
	t.Helper()
	text, pieces := "", 0
	for len(text) < len(want) {
		resp, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if d := resp.GetDelta(); d != nil {
			if text, pieces = text+d.GetText(), pieces+1; len(d.GetText()) > 16<<10 {
				t.Errorf("a piece has %d bytes", len(d.GetText()))
			}
		}
	}
	if text != want || pieces < 2 {
		t.Errorf("%d bytes came in %d pieces as %d other bytes", len(want), pieces, len(text))
	}
}
