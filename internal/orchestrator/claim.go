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

// answerClaim answers a claim with the assignment and its transcript, or with the refusal.
func (l *slot) answerClaim(ctx context.Context, a *exchange, answer tree.Answer, err error) ([]*pb.WorkResponse, error) {
	claim := a.req.GetClaim()
	a.mayGrant = false
	l.svc.claimRate.add(l.svc.Now())
	l.svc.backlog.hintClaimed(time.Now())
	l.svc.announceMore()
	granted, ok := answer.(*tree.Claimed)
	switch {
	case errors.Is(err, errUnsupportedProtocol):
		return l.refusal(pb.RefusedCause_REFUSED_CAUSE_PROTOCOL), nil
	case errors.Is(err, tree.ErrCapped):
		return l.refusal(pb.RefusedCause_REFUSED_CAUSE_CAPPED), l.releaseCapped(ctx, claim)
	case tree.CodeOf(err) == tree.CodeStale || tree.CodeOf(err) == tree.CodeNotFound:
		return l.refusal(pb.RefusedCause_REFUSED_CAUSE_STALE), nil
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("unexpected answer %T to a claim", answer)
	}
	held := l.holdGranted(a, granted, workerInfo{claim.GetWorkerId(), claim.GetFeatures()}, true)
	if held == nil {
		return nil, nil
	}
	assignment, err := l.loadAssignment(ctx, held, granted, a.pending.CachedConversation(), claim.GetHeld())
	if errors.Is(err, errMissingFeature) {
		return l.refusal(pb.RefusedCause_REFUSED_CAUSE_STALE), nil
	}
	return assignment, err
}

// errMissingFeature refuses a worker that lacks a feature the run needs.
var errMissingFeature = errors.New("the worker lacks a feature that the run needs")

// holdGranted puts a claimed run on the stream, and returns nil if the stream takes no attempt any
// more. known says whether the worker knows of the run and can come back for it then.
func (l *slot) holdGranted(a *exchange, run *tree.Claimed, worker workerInfo, known bool) *lease {
	held := newLease(&run.Task, run.Tenant, worker)
	if !l.hold(held, a.expected) {
		l.svc.handleLateGrant(held, a.expected, a.worker, known)
		return nil
	}
	return held
}

// loadAssignment returns the assignment and the transcript of a run that is on the stream.
func (l *slot) loadAssignment(ctx context.Context, held *lease, granted *tree.Claimed, known store.CachedConversation, has *pb.TranscriptHeld) ([]*pb.WorkResponse, error) {
	t, worker := &granted.Task, &held.worker
	if needsPolicy(t) && !worker.Has(wire.FeaturePolicy) || needsWorkspaces(granted) && !worker.Has(wire.FeatureWorkspaces) {
		l.abandon(false)
		return nil, errMissingFeature
	}
	seen, err := l.svc.Store.ConversationFromCache(ctx, known)
	if err == nil && seen == nil {
		seen, err = l.svc.Store.Conversation(ctx, granted.Tenant, t.Session, t.ID)
	}
	if err != nil {
		return nil, err
	}
	return l.buildAssignment(ctx, held, granted, seen, has)
}

// answerReattach answers a worker that continues its attempt over this stream.
func (l *slot) answerReattach(ctx context.Context, a *exchange, answer tree.Answer, err error) ([]*pb.WorkResponse, error) {
	reattach := a.req.GetReattach()
	a.mayGrant = false
	granted, ok := answer.(tree.Reattached)
	switch {
	case tree.CodeOf(err) == tree.CodeStale || tree.CodeOf(err) == tree.CodeNotFound:
		refused := l.refusal(pb.RefusedCause_REFUSED_CAUSE_STALE)
		refused[0].Given, err = l.findGivenRun(ctx, reattach)
		return refused, err
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("unexpected answer %T to a reattachment", answer)
	}
	l.svc.recordReattach()
	t := &granted.Task
	held := newLease(t, granted.Tenant, workerInfo{reattach.GetWorkerId(), append(slices.Clone(reattach.GetFeatures()), wire.FeatureReattach)})
	held.storedSeq, held.seenOrdinal = t.LastSeq, int(reattach.GetKnownOrdinal())
	if t.Kind == tree.KindShell {
		l.state.uncount()
	}
	if !l.hold(held, a.expected) {
		return nil, nil // the stream ends; the worker comes back over another one
	}
	return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Reattached{Reattached: &pb.Reattached{LastSeq: t.LastSeq}}}}, nil
}

func (l *slot) refusal(cause pb.RefusedCause) []*pb.WorkResponse {
	return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Refused{Refused: &pb.Refused{Cause: cause}}}}
}

// releaseCapped makes a run wait again whose session is at its cap.
func (l *slot) releaseCapped(ctx context.Context, claim *pb.Claim) error {
	session, cmd, err := wire.ClaimFrom(claim)
	if err != nil {
		return err
	}
	return l.svc.releaseReady(ctx, session, cmd.Task, cmd.Token.Epoch)
}

// releaseReady makes an announced run due again and wakes the announcer, because there may be room
// for the run by now.
func (s *Service) releaseReady(ctx context.Context, session tree.SessionID, task tree.TaskID, epoch int64) error {
	err := s.Store.ReleaseReady(ctx, session, task, epoch)
	if err == nil {
		s.wakeAnnouncer()
	}
	return err
}

// buildAssignment builds what a worker needs to continue a run. Results that arrived between the
// claim and the read of the transcript are in the transcript already. Messages that the worker
// holds are not sent again.
func (l *slot) buildAssignment(
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
		held.seenOrdinal = max(held.seenOrdinal, seen.Messages[i].Ordinal)
	}
	a := &pb.Assignment{
		Task: wire.Task(t), AgentDefinition: definition, Spawnable: spawnable,
		MaxIterations: int32(t.MaxIterations), MaxPartBytes: int32(granted.PartBytes),
		NoBackground: granted.NoBackground, TakesCompact: true, TakesCommands: true, TakesLeft: true,
		Authority: string(t.Authority), Source: t.Source, TraceParent: l.svc.Telemetry.TraceParent(t), Workspace: granted.Workspace, BudgetSpent: granted.Spent,
		WorktreeTaskIds: strings.Fields(t.Worktrees),
	}
	if t.Depth > 0 {
		a.Hooks = &pb.HookState{Start: !t.StartHooked && t.Iterations == 0, WentOn: int32(t.StopHooked)}
	}
	if t.Depth > 0 && t.Compacted > 0 {
		if a.Hooks.Prompt, err = l.svc.Store.Prompt(ctx, t.Session, tree.ChildRun{Task: t.ID, Run: t.Run}); err != nil {
			return nil, err
		}
	}
	for _, c := range seen.Open {
		a.OpenCalls = append(a.OpenCalls, &pb.OpenCall{Block: int32(c.Ref.Block), State: pb.CallState(c.State)})
	}
	known := countHeld(seen.Messages, has)
	a.HeldMessages = int32(known)
	chunks, err := transcriptChunks(wire.Messages(seen.Messages[known:]))
	if err != nil {
		return nil, err
	}
	return append([]*pb.WorkResponse{{Kind: &pb.WorkResponse_Assignment{Assignment: a}}}, chunks...), nil
}

// countHeld returns how many of the messages the worker holds already. A summary replaces the first
// messages of a transcript, so equal first and last messages mean equal messages in between.
func countHeld(messages []tree.Message, has *pb.TranscriptHeld) int {
	n := int(has.GetMessages())
	if n < 1 || n > len(messages) || messages[0].ID.String() != has.GetFirstId() || messages[n-1].ID.String() != has.GetLastId() {
		return 0
	}
	return n
}

// maxMessageBytes bounds the messages of a transcript in one response, which also carries other
// things. A response that is too large breaks the stream, and every other stream that its worker
// would continue the attempt over.
const maxMessageBytes = wire.MaxResponseBytes - 8<<20

// checkSendable refuses what no response can carry.
func checkSendable(size int) error {
	if size > maxMessageBytes {
		return tree.ErrTooLarge.With("a part of the transcript has %d bytes, at most %d can be sent to a worker", size, maxMessageBytes)
	}
	return nil
}

// transcriptChunks splits a transcript into responses. The last one is marked.
func transcriptChunks(messages []*pb.Message) ([]*pb.WorkResponse, error) {
	pieces := wire.Pieces(messages)
	if len(pieces) == 0 {
		pieces = append(pieces, nil)
	}
	out := make([]*pb.WorkResponse, len(pieces))
	for i, piece := range pieces {
		if len(piece) == 1 { // only such a piece may be large
			if err := checkSendable(piece[0].SizeVT()); err != nil {
				return nil, err
			}
		}
		out[i] = &pb.WorkResponse{Kind: &pb.WorkResponse_Transcript{Transcript: &pb.TranscriptChunk{
			Messages: piece, Last: i == len(pieces)-1,
		}}}
	}
	return out, nil
}

// submitAttempt submits a claim or a reattachment, unless it could not be read.
func (l *slot) submitAttempt(a *exchange, session tree.SessionID, cmd tree.Command, task tree.TaskID, epoch int64, unread error) {
	if unread != nil {
		a.err = badRequest(unread)
		return
	}
	a.mayGrant, a.expected = true, l.svc.leases.expect(task, epoch)
	a.pending, a.err = l.svc.Store.Submit(l.stream.Context(), session, cmd)
}
