package assembly_test

import (
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// released hears that the commands of a message are to go to the background.
func (h *hand) released() int32 {
	h.t.Helper()
	resp := h.hear()
	if resp.GetBackgroundCommands() == nil {
		h.t.Fatalf("heard %v", resp)
	}
	return resp.GetBackgroundCommands().GetOrdinal()
}

// acked hears the next answer that is one.
func (h *hand) acked(seq int64) *pb.Ack {
	h.t.Helper()
	for {
		resp := h.hear()
		if resp.GetBackgroundCommands() != nil {
			continue // it may come again
		}
		if resp.GetAck() == nil || resp.GetSeq() != seq {
			h.t.Fatalf("request %d was answered with %v", seq, resp)
		}
		return resp.GetAck()
	}
}

func starting(block int32) *pb.WorkRequest {
	return &pb.WorkRequest{Kind: &pb.WorkRequest_CallStarted{CallStarted: &pb.CallStarted{Block: block}}}
}

func launching(block int32, nonce uint64) *pb.WorkRequest {
	return &pb.WorkRequest{Kind: &pb.WorkRequest_Spawn{Spawn: &pb.Spawn{Children: []*pb.SpawnChild{{
		Block: block, Shell: &pb.ShellChild{Command: "serve", Nonce: nonce, OutputFile: "out.txt"},
	}}}}}
}

// busy claims the root of a new session and begins two commands.
func (c *client) busy(h *hand) attempt {
	c.t.Helper()
	a := c.first()
	if !h.claim(a) {
		c.t.Fatal("the claim was refused")
	}
	h.ask(calling("bash", "{}", "{}"))
	h.ask(starting(0))
	h.ask(starting(1))
	if _, err := c.BackgroundTask(c.ctx(), &pb.BackgroundTaskRequest{SessionId: a.session, Commands: true}); err != nil {
		c.t.Fatal(err)
	}
	return a
}

// TestAWorkerIsAskedToLetCommandsGo: at once, again over another stream, and only if
// it knows what that means.
func TestAWorkerIsAskedToLetCommandsGo(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	older := c.hand()
	c.busy(older)
	if resp := older.ask(closing(0, "done")); resp.GetAck() == nil {
		t.Errorf("a worker of the release before heard %v", resp)
	}

	h := c.hand()
	h.features = []string{"commands"}
	a := c.busy(h)
	if n := h.released(); n != 2 {
		t.Errorf("released is message %d", n)
	}
	h.cut()
	h = c.hand()
	h.features = []string{"commands"}
	if stored := h.reattach(a, 2); stored != 3 {
		t.Errorf("request %d was stored last", stored)
	}
	if n := h.released(); n != 2 {
		t.Errorf("released again is message %d", n)
	}
	h.seq++
	h.send(withSeq(launching(0, 7), h.seq))
	first := h.acked(h.seq).GetLaunched()
	if len(first) != 1 || first[0].GetBlock() != 0 || first[0].GetEpoch() != 1 {
		t.Fatalf("launched are %v", first)
	}
	h.cut()
	h = c.hand()
	h.reattach(a, 2)
	h.send(withSeq(launching(0, 7), h.seq)) // it has had no answer
	if again := h.acked(h.seq).GetLaunched(); len(again) != 1 || again[0].GetTaskId() != first[0].GetTaskId() {
		t.Errorf("launched again are %v", again)
	}
	if n := len(c.tasks(a.session)); n != 2 {
		t.Errorf("there are %d tasks", n)
	}
	c.sound()
}

func withSeq(req *pb.WorkRequest, seq int64) *pb.WorkRequest {
	req.Seq = seq
	return req
}

// TestACommandIsItsWorkers: nobody claims it, its stream is its lease, and what its
// worker says after the end is refused.
func TestACommandIsItsWorkers(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	h := c.hand()
	a := c.busy(h)
	launched := h.ask(launching(0, 7)).GetAck().GetLaunched()[0]
	h.ask(launching(1, 8))
	shell := attempt{a.session, launched.GetTaskId(), launched.GetEpoch(), 7}
	if c.hand().claim(shell) {
		t.Error("the command was claimed")
	}
	if stored := c.hand().reattach(attempt{a.session, shell.task, 1, 8}, 0); stored != -1 {
		t.Errorf("another's nonce was taken, with %d requests", stored)
	}
	own := c.hand()
	if stored := own.reattach(shell, 0); stored != 0 {
		t.Errorf("request %d was stored last", stored)
	}
	prints := &pb.WorkRequest{Kind: &pb.WorkRequest_Progress{Progress: &pb.Progress{Output: "up\n"}}}
	if resp := own.ask(prints); resp.GetAck() == nil {
		t.Errorf("a report was answered with %v", resp)
	}
	own.cut() // for good
	ended := c.wait(a.session, shell.task)
	if ended.GetReason() != pb.Reason_REASON_INTERRUPTED || ended.GetResult() != "up\n" {
		t.Errorf("it ended as %v", ended)
	}
	if stored := c.hand().reattach(shell, 0); stored != -1 {
		t.Error("an attempt that is over was taken up again")
	}
	// The other one was never taken up.
	for _, task := range c.tasks(a.session) {
		if task.GetKind() == pb.TaskKind_TASK_KIND_SHELL {
			c.wait(a.session, task.GetId())
		}
	}
	c.sound()
}
