package orchestrator

import (
	"context"
	"fmt"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// respond waits for the outcome of one request and returns the responses. An error means that the
// attempt can't continue.
func (l *slot) respond(ctx context.Context, a *exchange) ([]*pb.WorkResponse, error) {
	var answer tree.Answer
	err := a.err
	if err == nil {
		answer, err = a.pending.Wait(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	switch a.req.GetKind().(type) {
	case *pb.WorkRequest_Claim:
		defer l.claiming.Store(false)
		return l.answerClaim(ctx, a, answer, err)
	case *pb.WorkRequest_Reattach:
		defer l.claiming.Store(false)
		return l.answerReattach(ctx, a, answer, err)
	}
	lease := l.state.currentLease()
	switch {
	case lease == nil || lease != a.lease:
		return nil, nil // the worker has been told that the attempt is over, and may have another run by now
	case err != nil:
		return nil, err
	}
	lease.touch(l.svc.Now())
	switch k := answer.(type) {
	case tree.Stored:
		ack, err := l.acknowledge(ctx, lease, a.req, k)
		return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Ack{Ack: ack}}}, err
	case tree.ParkedRun:
		l.dropAttempt()
		return l.answerWithNextRun(ctx, a, lease, &pb.WorkResponse{Kind: &pb.WorkResponse_Parked{Parked: &pb.Parked{}}}), nil
	case tree.Ended:
		l.dropAttempt()
		return l.answerWithNextRun(ctx, a, lease, &pb.WorkResponse{Kind: &pb.WorkResponse_Ended{Ended: &pb.Ended{State: pb.TaskState(k.State)}}}), nil
	}
	return nil, fmt.Errorf("unexpected answer %T to a worker's request", answer)
}

// acknowledge returns the answer to a stored request, with the boundary if the run reached one.
func (l *slot) acknowledge(ctx context.Context, lease *lease, req *pb.WorkRequest, stored tree.Stored) (*pb.Ack, error) {
	ack := &pb.Ack{Ordinal: int32(stored.Ordinal), Approved: stored.Approved, Launched: wire.Launched(stored.Launched)}
	if stored.Ordinal > 0 {
		lease.seenOrdinal, lease.callsClosed = stored.Ordinal, map[int]bool{}
	}
	if m := req.GetAppend().GetMessage(); m != nil {
		lease.callsOpened = 0
		for _, b := range m.GetBlocks() {
			if b.GetToolUse() != nil {
				lease.callsOpened++
			}
		}
	}
	if c := req.GetCallClose(); c != nil {
		lease.callsClosed[int(c.GetResult().GetBlock())] = true
	}
	if stored.Boundary == 0 {
		return ack, nil
	}
	boundary, err := l.readBoundary(ctx, lease, stored.Boundary)
	if err != nil {
		return ack, err
	}
	boundary.BudgetSpent, boundary.BudgetShort, boundary.Source = stored.Spent, stored.Short, stored.Source
	ack.Boundary = boundary
	return ack, nil
}

// readBoundary returns the part of the transcript that the worker does not know yet. If the worker
// has closed all calls itself and nothing else was added, it knows everything.
func (l *slot) readBoundary(ctx context.Context, lease *lease, last int) (*pb.Boundary, error) {
	after := lease.seenOrdinal
	lease.seenOrdinal = last
	if last == after || last == after+1 && lease.callsOpened > 0 && len(lease.callsClosed) == lease.callsOpened {
		return &pb.Boundary{Ordinal: int32(last)}, nil
	}
	messages, err := l.svc.Store.Transcript(ctx, lease.session, lease.task, after, 0)
	if err != nil {
		return nil, err
	}
	out := &pb.Boundary{Ordinal: int32(last)}
	for _, m := range messages {
		if m.Ordinal > last {
			break
		}
		shown := wire.Message(&m)
		if m.Role != tree.RoleTool {
			out.Messages = append(out.Messages, shown)
			continue
		}
		out.Results = shown
		unknown := shown.Blocks[:0]
		for _, b := range shown.GetBlocks() {
			if !lease.callsClosed[int(b.GetToolResult().GetBlock())] {
				unknown = append(unknown, b)
			}
		}
		shown.Blocks = unknown
	}
	return out, checkSendable(out.SizeVT())
}

func lostResponse(detail string) *pb.WorkResponse {
	return &pb.WorkResponse{Kind: &pb.WorkResponse_Lost{Lost: &pb.Lost{Detail: detail}}}
}

// loseAttempt ends the attempt on the stream after a request was refused or has failed.
func (l *slot) loseAttempt(ctx context.Context, err error) *pb.WorkResponse {
	if tree.CodeOf(err) != tree.CodeStale {
		l.svc.Logger.WarnContext(ctx, "an attempt cannot continue", "error", err)
	}
	l.abandon(ctx.Err() == nil && isLasting(err))
	return lostResponse(err.Error())
}

// isLasting reports whether an error would probably meet the next attempt too: it is the fault of
// what the worker sends, or of what is stored. Such attempts are counted, so that they come to an
// end.
func isLasting(err error) bool {
	switch tree.CodeOf(err) {
	case tree.CodeInvalid, tree.CodePrecondition, tree.CodeExhausted, tree.CodeNotFound, tree.CodeInternal:
		return true
	}
	return false
}
