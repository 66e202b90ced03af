package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// claimed answers a claim: with the assignment and its transcript, or with why
// it was refused.
func (l *slot) claimed(ctx context.Context, claim *pb.Claim, answer tree.Answer, err error) ([]*pb.WorkResponse, error) {
	l.lookForReady() // the dispatch stream has room for one more
	granted, ok := answer.(tree.Claimed)
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
	t := &granted.Task
	held := &lease{
		session: t.Session, task: t.ID, agent: t.Agent, run: t.Run, token: t.Token(), seen: t.NextOrdinal - 1, closed: map[int]bool{},
	}
	if !l.hold(held) {
		return nil, l.redeliver(ctx, t.Session, tree.Redeliver{Task: t.ID, Epoch: t.Epoch})
	}
	// From here on a cancel reaches the stream; one that came before is seen here.
	now, err := l.Store.Task(ctx, t.Session, t.ID)
	if err != nil {
		return nil, err
	}
	if now.State != tree.StateRunning || now.Token() != t.Token() {
		l.hold(nil)
		return l.refuse(pb.RefusedCause_REFUSED_CAUSE_STALE), nil
	}
	return l.assignment(ctx, held, t, granted.PartBytes)
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
	return l.Store.ReleaseReady(ctx, session, cmd.Task, cmd.Token.Epoch)
}

// assignment puts together what a worker needs to go on with a run. Results that
// come between the claim and this look are in the transcript already.
func (l *slot) assignment(ctx context.Context, held *lease, t *tree.Task, partBytes int) ([]*pb.WorkResponse, error) {
	definition, err := l.Store.AgentVersion(ctx, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	messages, open, err := l.Store.Conversation(ctx, t.Session, t.ID)
	if err != nil {
		return nil, err
	}
	if n := len(messages); n > 0 {
		held.seen = messages[n-1].Ordinal
	}
	a := &pb.Assignment{
		Task: wire.Task(t), AgentDefinition: definition, Spawnable: l.spawnable(t.Agent),
		MaxIterations: int32(t.MaxIterations), MaxPartBytes: int32(partBytes),
	}
	for _, c := range open {
		a.OpenCalls = append(a.OpenCalls, &pb.OpenCall{Block: int32(c.Ref.Block), State: pb.CallState(c.State)})
	}
	out := []*pb.WorkResponse{{Kind: &pb.WorkResponse_Assignment{Assignment: a}}}
	return append(out, chunks(wire.Messages(messages))...), nil
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

// spawnable lists the agents that an agent may spawn.
func (s *Service) spawnable(agent string) []*pb.SpawnableAgent {
	def, ok := s.Agents.Get(agent)
	if !ok {
		return nil
	}
	var out []*pb.SpawnableAgent
	for _, d := range s.Agents.Spawnable(def) {
		out = append(out, &pb.SpawnableAgent{Name: d.Name, Description: d.Description})
	}
	return out
}

// leases knows which attempts are on streams of this replica.
type leases struct {
	mu      sync.Mutex
	streams int
	held    map[tree.TaskID]holding
}

// holding is an attempt on a stream; gone is set when it was ended from outside,
// and the stream is told to look.
type holding struct {
	epoch int64
	gone  bool
	look  chan<- struct{}
}

func newLeases() *leases { return &leases{held: map[tree.TaskID]holding{}} }

func (l *leases) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams++
}

func (l *leases) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams--
}

func (l *leases) slots() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams
}

func (l *leases) add(task tree.TaskID, epoch int64, look chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[task] = holding{epoch: epoch, look: look}
}

// revoke tells the stream that holds an attempt that it was ended from outside.
// It never waits: a stream that has been told already need not be told again.
func (l *leases) revoke(task tree.TaskID, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, held := l.held[task]; held && h.epoch == epoch {
		h.gone = true
		l.held[task] = h
		select {
		case h.look <- struct{}{}:
		default:
		}
	}
}

// gone reports whether an attempt on a stream was ended from outside.
func (l *leases) gone(task tree.TaskID, epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[task]
	return h.epoch == epoch && h.gone
}

func (l *leases) drop(task tree.TaskID, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[task].epoch == epoch {
		delete(l.held, task)
	}
}

func (l *leases) holds(task tree.TaskID, epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[task].epoch == epoch
}
