package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// claimed answers a claim: with the assignment and its transcript, or with why
// it was refused.
func (l *slot) claimed(ctx context.Context, a *exchange, answer tree.Answer, err error) ([]*pb.WorkResponse, error) {
	claim := a.req.GetClaim()
	a.mayGrant = false
	l.svc.claims.add(l.svc.Now())
	l.svc.stock.came(time.Now())
	l.svc.lookForMore()
	granted, ok := answer.(*tree.Claimed)
	switch {
	case errors.Is(err, errProtocol):
		return l.refuse(pb.RefusedCause_REFUSED_CAUSE_PROTOCOL), nil
	case errors.Is(err, tree.ErrCapped):
		return l.refuse(pb.RefusedCause_REFUSED_CAUSE_CAPPED), l.release(ctx, claim)
	case tree.CodeOf(err) == tree.CodeStale || tree.CodeOf(err) == tree.CodeNotFound:
		return l.refuse(pb.RefusedCause_REFUSED_CAUSE_STALE), nil
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("a claim was answered with %T", answer)
	}
	held := l.granted(a, granted, carrier{claim.GetWorkerId(), claim.GetFeatures()}, true)
	if held == nil {
		return nil, nil
	}
	assignment, err := l.assigned(ctx, held, granted, a.pending.CachedConversation(), claim.GetHeld())
	if errors.Is(err, errUnfit) {
		return l.refuse(pb.RefusedCause_REFUSED_CAUSE_STALE), nil
	}
	return assignment, err
}

// errUnfit says that a worker lacks what a run needs.
var errUnfit = errors.New("the worker lacks a feature that the run needs")

// granted puts a claimed run on the stream; nil: it takes none any more. known is whether the
// worker can come for it then.
func (l *slot) granted(a *exchange, run *tree.Claimed, by carrier, known bool) *lease {
	held := leaseOf(&run.Task, run.Tenant, by)
	if !l.hold(held, a.expected) {
		l.svc.strand(held, a.expected, a.worker, known)
		return nil
	}
	return held
}

// assigned gives the assignment and the transcript of a run that is on the stream.
func (l *slot) assigned(ctx context.Context, held *lease, granted *tree.Claimed, known store.CachedConversation, has *pb.TranscriptHeld) ([]*pb.WorkResponse, error) {
	t, by := &granted.Task, &held.by
	if guarded(t) && !by.Has(wire.FeaturePolicy) || placed(granted) && !by.Has(wire.FeatureWorkspaces) {
		l.abandon(false)
		return nil, errUnfit
	}
	seen, err := l.svc.Store.ConversationFromCache(ctx, known)
	if err == nil && seen == nil {
		seen, err = l.svc.Store.Conversation(ctx, granted.Tenant, t.Session, t.ID)
	}
	if err != nil {
		return nil, err
	}
	return l.assignment(ctx, held, granted, seen, has)
}

// reattached answers a worker that goes on with its attempt over this stream.
func (l *slot) reattached(ctx context.Context, a *exchange, answer tree.Answer, err error) ([]*pb.WorkResponse, error) {
	again := a.req.GetReattach()
	a.mayGrant = false
	granted, ok := answer.(tree.Reattached)
	switch {
	case tree.CodeOf(err) == tree.CodeStale || tree.CodeOf(err) == tree.CodeNotFound:
		refused := l.refuse(pb.RefusedCause_REFUSED_CAUSE_STALE)
		refused[0].Given, err = l.givenTo(ctx, again)
		return refused, err
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("a reattachment was answered with %T", answer)
	}
	l.svc.reattachment()
	t := &granted.Task
	held := leaseOf(t, granted.Tenant, carrier{again.GetWorkerId(), append(slices.Clone(again.GetFeatures()), wire.FeatureReattach)})
	held.stored, held.seen = t.LastSeq, int(again.GetKnownOrdinal())
	if t.Kind == tree.KindShell {
		l.seat.uncount()
	}
	if !l.hold(held, a.expected) {
		return nil, nil // the stream ends; the worker comes back over another one
	}
	return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Reattached{Reattached: &pb.Reattached{LastSeq: t.LastSeq}}}}, nil
}

func (l *slot) refuse(cause pb.RefusedCause) []*pb.WorkResponse {
	return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Refused{Refused: &pb.Refused{Cause: cause}}}}
}

// release makes a run whose session is at its cap wait for its turn again.
func (l *slot) release(ctx context.Context, claim *pb.Claim) error {
	session, cmd, err := wire.ClaimFrom(claim)
	if err != nil {
		return err
	}
	return l.svc.releaseReady(ctx, session, cmd.Task, cmd.Token.Epoch)
}

// releaseReady makes a run that was announced due again, and has it looked at: there may be
// room for it by now.
func (s *Service) releaseReady(ctx context.Context, session tree.SessionID, task tree.TaskID, epoch int64) error {
	err := s.Store.ReleaseReady(ctx, session, task, epoch)
	if err == nil {
		s.lookForReady()
	}
	return err
}

// assignment puts together what a worker needs to go on with a run. Results that
// come between the claim and this look are in the transcript already. What the worker has
// of it is not sent again.
func (l *slot) assignment(
	ctx context.Context, held *lease, granted *tree.Claimed, seen *store.Conversation, has *pb.TranscriptHeld,
) ([]*pb.WorkResponse, error) {
	t := &granted.Task
	definition, err := l.svc.Store.AgentVersion(ctx, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	spawnable, err := l.svc.spawnable(ctx, held, seen.Agents)
	if err != nil {
		return nil, err
	}
	for i := range seen.Messages { // a summary comes before messages that are older than it
		held.seen = max(held.seen, seen.Messages[i].Ordinal)
	}
	a := &pb.Assignment{
		Task: wire.Task(t), AgentDefinition: definition, Spawnable: spawnable,
		MaxIterations: int32(t.MaxIterations), MaxPartBytes: int32(granted.PartBytes),
		NoBackground: granted.NoBackground, TakesCompact: true, TakesCommands: true, TakesLeft: true,
		Authority: string(t.Authority), Source: t.Source, TraceParent: l.svc.Telemetry.Parent(t), Workspace: granted.Workspace, BudgetSpent: granted.Spent,
		WorktreeTaskIds: strings.Fields(t.Worktrees),
	}
	if t.Depth > 0 {
		a.Hooks = &pb.HookState{Start: !t.StartHooked && t.Iterations == 0, WentOn: int32(t.StopHooked)}
	}
	for _, c := range seen.Open {
		a.OpenCalls = append(a.OpenCalls, &pb.OpenCall{Block: int32(c.Ref.Block), State: pb.CallState(c.State)})
	}
	known := knownOf(seen.Messages, has)
	a.HeldMessages = int32(known)
	out := []*pb.WorkResponse{{Kind: &pb.WorkResponse_Assignment{Assignment: a}}}
	return append(out, chunks(wire.Messages(seen.Messages[known:]))...), nil
}

// knownOf is how many messages of a transcript a worker need not be sent. A summary comes
// in the place of the first ones: between the same first and the same last message are the
// same.
func knownOf(messages []tree.Message, has *pb.TranscriptHeld) int {
	n := int(has.GetMessages())
	if n < 1 || n > len(messages) || messages[0].ID.String() != has.GetFirstId() || messages[n-1].ID.String() != has.GetLastId() {
		return 0
	}
	return n
}

// chunks cuts a transcript into responses; the last one says so.
func chunks(messages []*pb.Message) []*pb.WorkResponse {
	pieces := wire.Pieces(messages)
	if len(pieces) == 0 {
		pieces = append(pieces, nil)
	}
	out := make([]*pb.WorkResponse, len(pieces))
	for i, piece := range pieces {
		out[i] = &pb.WorkResponse{Kind: &pb.WorkResponse_Transcript{Transcript: &pb.TranscriptChunk{
			Messages: piece, Last: i == len(pieces)-1,
		}}}
	}
	return out
}

// submitFor submits a request for an attempt, unless it could not be read.
func (l *slot) submitFor(a *exchange, session tree.SessionID, cmd tree.Command, task tree.TaskID, epoch int64, unread error) {
	if unread != nil {
		a.err = unreadable(unread)
		return
	}
	a.mayGrant, a.expected = true, l.svc.leases.expect(task, epoch)
	a.pending, a.err = l.svc.Store.Submit(l.stream.Context(), session, cmd)
}
