package worker

import (
	"context"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// offers offers the slot of a run to what becomes ready with its end: most often the parent,
// of whose transcript the worker may hold the beginning. Nil: it takes none any more.
func (w *Worker) offerSlot(session tree.SessionID, parent string) (*pb.Takes, []tree.Message) {
	if w.isDraining() {
		return nil, nil
	}
	takes := &pb.Takes{Nonce: rand.Uint64(), StandBy: true}
	task, err := tree.ParseID[tree.Task](parent)
	if err != nil {
		return takes, nil // a root has none
	}
	held := w.transcripts.Begins(transcript.Of{Session: session, Task: task})
	if takes.Held = describeHeld(held); takes.Held != nil {
		takes.HeldTaskId = parent
	}
	return takes, held
}

// beginGiven puts a run on the line that came with the end of the last one, as if it had been
// claimed: if the stream breaks before its assignment is there, the claim is sent over the
// next one. It needs the lock of the line.
func (c *conn) beginGivenRun(last *request, given *pb.GivenRun) {
	takes := last.req.GetTakes()
	claim := proto.CloneOf(c.attempt.claim)
	claim.SessionId, claim.TaskId, claim.Epoch, claim.Nonce = given.GetSessionId(), given.GetTaskId(), given.GetEpoch(), takes.GetNonce()
	var held []tree.Message
	claim.Held = nil
	if takes.GetHeldTaskId() == given.GetTaskId() {
		claim.Held, held = takes.GetHeld(), last.heldMessages
	}
	c.givenClaim = &request{
		conn: c, req: &pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: claim}}, answered: make(chan struct{}), heldMessages: held,
	}
	c.beginAttempt(claim, held, nil)
	c.unanswered = append(c.unanswered, c.givenClaim)
}

// takeUp waits for the assignment of the run that has come with the end of the last one.
// There may be none. drop is called when the attempt is lost.
func (c *conn) takeGivenRun(ctx context.Context, drop context.CancelFunc) (*assignment, *journal, error) {
	c.sendMu.Lock()
	c.mu.Lock()
	r := c.givenClaim
	c.givenClaim = nil
	if r == nil {
		c.mu.Unlock()
		c.sendMu.Unlock()
		return nil, nil, nil
	}
	c.startSequenceAt(1) // the claim that was not sent is 0
	if c.attempt.onLost = drop; c.attemptOver {
		drop() // it was lost before anybody could be told
	}
	j := newJournal(c)
	c.mu.Unlock()
	c.sendMu.Unlock()
	a, err := r.waitAssignment(ctx, r.heldMessages)
	return a, j, err
}
