package worker

import (
	"context"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// offerSlot offers the slot of a run to a run that becomes ready when this one parks or ends. Most
// often that is the parent, so the offer says which messages of the parent's transcript the worker
// holds. It returns nil while the worker drains.
func (w *Worker) offerSlot(session tree.SessionID, parent string) (*pb.Takes, []tree.Message) {
	if w.isDraining() {
		return nil, nil
	}
	takes := &pb.Takes{Nonce: rand.Uint64(), StandBy: true}
	task, err := tree.ParseID[tree.Task](parent)
	if err != nil {
		return takes, nil // a root has no parent
	}
	held := w.transcripts.Get(transcript.Key{Session: session, Task: task})
	if takes.Held = describeHeld(held); takes.Held != nil {
		takes.HeldTaskId = parent
	}
	return takes, held
}

// beginGivenRun begins the attempt of a run that came with the end of the last one, as if it had
// been claimed. If the stream breaks before the assignment arrives, the claim is sent over the
// next stream. The caller holds mu.
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

// takeGivenRun waits for the assignment of the run that came with the end of the last one, and
// returns nil if there is none. onLost is called when the attempt is lost.
func (c *conn) takeGivenRun(ctx context.Context, onLost context.CancelFunc) (*assignment, *journal, error) {
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
	if c.attempt.onLost = onLost; c.attemptOver {
		onLost() // it was lost before this call
	}
	j := newJournal(c)
	c.mu.Unlock()
	c.sendMu.Unlock()
	a, err := r.waitAssignment(ctx, r.heldMessages)
	return a, j, err
}
