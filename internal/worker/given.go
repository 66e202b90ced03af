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
	begins := w.transcripts.Begins(transcript.Of{Session: session, Task: task})
	if takes.Held = heldOf(begins); takes.Held != nil {
		takes.HeldTaskId = parent
	}
	return takes, begins
}

// beginGiven puts a run on the line that came with the end of the last one, as if it had been
// claimed: if the stream breaks before its assignment is there, the claim is sent over the
// next one. It needs the lock of the line.
func (l *line) beginGiven(last *request, given *pb.GivenRun) {
	takes := last.req.GetTakes()
	claim := proto.CloneOf(l.attempt.claim)
	claim.SessionId, claim.TaskId, claim.Epoch, claim.Nonce = given.GetSessionId(), given.GetTaskId(), given.GetEpoch(), takes.GetNonce()
	var begins []tree.Message
	claim.Held = nil
	if takes.GetHeldTaskId() == given.GetTaskId() {
		claim.Held, begins = takes.GetHeld(), last.begins
	}
	l.unclaimed = &request{
		line: l, req: &pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: claim}}, answered: make(chan struct{}), begins: begins,
	}
	l.begin(claim, begins, nil)
	l.waiting = append(l.waiting, l.unclaimed)
}

// takeUp waits for the assignment of the run that has come with the end of the last one.
// There may be none. drop is called when the attempt is lost.
func (l *line) takeUp(ctx context.Context, drop context.CancelFunc) (*assignment, *journal, error) {
	l.sending.Lock()
	l.mu.Lock()
	r := l.unclaimed
	l.unclaimed = nil
	if r == nil {
		l.mu.Unlock()
		l.sending.Unlock()
		return nil, nil, nil
	}
	l.renumber(1) // the claim that was not sent is 0
	if l.attempt.drop = drop; l.over {
		drop() // it was lost before anybody could be told
	}
	j := newJournal(l)
	l.mu.Unlock()
	l.sending.Unlock()
	a, err := r.assigned(ctx, r.begins)
	return a, j, err
}
